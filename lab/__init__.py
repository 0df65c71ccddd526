"""The lab: a User-Mode Linux kernel with virtual time, built once, booted for every run."""
