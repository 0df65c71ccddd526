"""What a fabric is (frozen descriptions) and how it becomes real (one module, `emulate`)."""
