"""Time that runs slower (--scale): what becomes of a spec, what that keeps and loses, and what is told of it."""
