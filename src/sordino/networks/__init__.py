"""Private training of any torch module, by one object that owns batches, clipping and noise."""

from sordino.networks.trainer import LogicalBatch, PrivateTrainer, TrainingEnded

__all__ = ["LogicalBatch", "PrivateTrainer", "TrainingEnded"]
