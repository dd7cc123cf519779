"""Flights: one record type, and readers of logs."""

from sagewing.flights.flight import Flight, Pose
from sagewing.flights.log import Log
from sagewing.flights.npz import read_flight, read_flights
from sagewing.flights.read import read_log
from sagewing.flights.repair import Signal

__all__ = ["Flight", "Log", "Pose", "Signal", "read_flight", "read_flights", "read_log"]
