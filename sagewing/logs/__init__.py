"""Flights: one record type, and readers of logs."""

from sagewing.logs.flight import Flight, Pose
from sagewing.logs.log import Log
from sagewing.logs.readers.npz import read_flight, read_flights
from sagewing.logs.readers.read import read_log
from sagewing.logs.signal import Signal

__all__ = ["Flight", "Log", "Pose", "Signal", "read_flight", "read_flights", "read_log"]
