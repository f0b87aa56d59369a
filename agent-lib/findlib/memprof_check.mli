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

    An assertion never raises, never keeps a value alive and never waits, but at the end of a program that
    [memprofctl check] has started. Without memprofd it costs as little: a mark takes some 20 nanoseconds in OCaml 4, 80 in
    OCaml 5, and 16 to 64 bytes per marked value that lives. All functions may be called from any thread and domain.

    A name says what is asserted, as in the reports; use constants. Marks of one name belong together. There are 509 names
    of assertions and published values in all, of 63 bytes each. *)

val unreachable : ?after:float -> string -> 'a -> unit
(** [unreachable ~after name v] asserts that [v] cannot be reached any more from [after] seconds on (default: 0., from the
    next snapshot on). Reachable means by the program's data, stacks or C code; what only waits for the collector is not.
    Values without a block of their own, and constants of the program, are not checked. *)

val dies_before : string -> 'a -> other:'b -> unit
(** [dies_before name v ~other] asserts that [v] becomes unreachable before [other] does, or together with it: it is violated
    by a reachable [v] whose [other] is unreachable. *)

val region : string -> max_bytes:int -> (unit -> 'a) -> 'a
(** [region name ~max_bytes f] is [f ()], and asserts that of the memory that is allocated meanwhile, by any thread, no more
    than [max_bytes] stay reachable. The last run that has ended counts. This is an estimate from sampled blocks, so only an
    excess that chance does not explain is a violation. *)

val verify : unit -> unit
(** Has [memprofctl check] verify all assertions here, and waits for it, at most as long as it works. Without it, and in
    servers, it does nothing. The end of the program does the same by itself (at_exit). *)
