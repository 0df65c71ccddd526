"""Tables of runs and captures: pandas, Parquet, CSV."""
