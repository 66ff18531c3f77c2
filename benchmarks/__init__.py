"""Speed and memory, each beside a bound or a plain baseline from the same run. `make bench` runs all."""
