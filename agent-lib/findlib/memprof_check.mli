(* SPDX-License-Identifier: Apache-2.0 *)
(** Assertions about the heap, in the code that they are about: this value is unreachable soon, that one dies first, a phase
    leaves little behind. They are verified from outside, in heap snapshots: by [memprofctl check], which fails the build,
    and by memprofd in a running server. A violation names the path that keeps the value alive.

    {[
      let handle request =
        let session = Session.create request in
        let buffer = Buffer.create 4096 in
        Memprof_check.dies_before "buffer" buffer ~other:session;
        let reply = Session.answer session buffer in
        Memprof_check.unreachable "session" session;
        reply
    ]}

    {v
      $ memprofctl check -q -- ./server_test
      BROKEN  session is unreachable: 3 values are reachable; 3 by global Session.all → list of Session.t
    v}

    An assertion never raises, never keeps a value alive and never waits; only [verify], and the end of a program that
    [memprofctl check] has started, wait. Without memprofd it costs as little: a mark takes some 20 nanoseconds in OCaml 4, 80 in
    OCaml 5, and 16 to 64 bytes per marked value that lives. All functions may be called from any thread and domain.

    Reports show the names of assertions; use constants. Marks of one name belong together. There are 509 names
    of assertions and published values in all, of 63 bytes each. *)

val unreachable : ?after:float -> string -> 'a -> unit
(** [unreachable ~after name v] asserts that [v] cannot be reached any more from [after] seconds on (default: 0., from the
    next snapshot on). Reachable means by the program's data, stacks or C code; what only waits for the collector is not.
    Values without a block of their own, and constants of the program, are not checked. *)

val dies_before : string -> 'a -> other:'b -> unit
(** [dies_before name v ~other] asserts that [v] becomes unreachable before [other] does, or together with it: it is violated
    by a reachable [v] whose [other] is unreachable. *)

val region : string -> max_bytes:int -> (unit -> 'a) -> 'a
(** [region name ~max_bytes f] is [f ()], and asserts that no more than [max_bytes] of the memory that is allocated
    meanwhile, by any thread, stay reachable. The last run that has ended counts. This is an estimate from sampled blocks, so
    only an excess that chance does not explain is a violation. A negative [max_bytes] counts as 0. *)

val verify : unit -> unit
(** [verify ()] lets [memprofctl check] verify all assertions here, and waits until that has ended. It does nothing without
    [memprofctl check]. The library calls it at the end of the program (at_exit). *)
