"""Training steps as programs of their ranks (workloads/collectives/program.py): what is computed and sent when data,
the layers or each layer is shared."""
