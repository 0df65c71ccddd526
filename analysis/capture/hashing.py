"""How whole numbers are spread over 64 bits, so that equal ones are found by sorting."""

from __future__ import annotations

import numpy as np

# 2^64 over the golden ratio, odd and without pattern: Fibonacci hashing (Knuth, volume 3, section 6.4)
MIX = np.uint64(0x9E3779B97F4A7C15)
