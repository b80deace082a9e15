"""The commands of the simulation: ``simulate`` and ``what-if``."""
