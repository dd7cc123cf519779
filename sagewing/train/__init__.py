"""Training: losses, the loop, checkpoints, and one file for each domain."""

from sagewing.train.loop import Progress, Schedule, Trained, train
from sagewing.train.losses import state_loss

__all__ = ["Progress", "Schedule", "Trained", "state_loss", "train"]
