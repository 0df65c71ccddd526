"""The tests; a package, so that lab tests can start parts of themselves inside the lab."""
