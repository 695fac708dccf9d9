"""Events that pour in at any time, and the triggers that make memories of them."""
