"""The formats that logs come in, one module each; `registry` knows them all."""
