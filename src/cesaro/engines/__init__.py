"""Where pieces of work run: on threads of this machine, or as tasks of a Ray cluster. Results do not depend on it.

How to call it:

    for result in map_ordered(function, items, engine=engine, address=address): …  # in the order of the items
    for number, result in map_completed(function, items, engine=engine, address=address): …  # as they end

`function(item)` must depend on nothing but the item and what the function holds. It is sent to every worker once, so that large
things that all pieces need (a table, a policy, a plan) belong in it (`functools.partial`, a dataclass with `__call__`), and
what it builds from them may be kept in it between pieces. Items travel with every piece. Functions and classes of the user's own
travel by value: a worker needs nothing but this package. Arrays of the function arrive read-only, those of results too.

`items` may be a generator: it is asked for the next one when there is room, in the caller's thread. Not more than two pieces per
worker are under way or wait for an earlier one. Leaving the loop early gives up what is under way.

`engine="local"` runs the function on `workers` threads. `engine="ray"` sends pieces to the cluster at `address`; without one, to
the cluster that runs on this machine, or else to one that is started here and ended afterwards. Around several calls, `with
session(engine, address):` keeps the connection. Pieces of workers and nodes that die are computed again. What the function raises
comes out as itself; a cluster that is lost raises `ClusterError`, after what came back was handed out (in order: up to the first
piece that is missing).

`check_engine(engine, address)` refuses a wrong engine, or a missing package, before any work.
"""

from cesaro.engines.cluster import session
from cesaro.engines.mapping import check_engine, in_use, map_completed, map_ordered, using

__all__ = ["check_engine", "in_use", "map_completed", "map_ordered", "session", "using"]
