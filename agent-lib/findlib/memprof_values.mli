(* SPDX-License-Identifier: Apache-2.0 *)
(** Publishes counts, times, values and log lines of a program, for memprofd to read from outside while it runs.

    Everything is kept in the program's own memory: nothing is sent, and nothing waits. While no viewer is present, points
    and timers count, and everything else is idle. A viewer counts as present for a minute after each query or scrape.

    A name and its labels identify what is published: creating the same again returns the same. A name may have 63 bytes,
    all labels together 103, a unit 15; longer ones are truncated. There are 509 names in all, 127 of them timers and
    phases; points and timers beyond that count together, as ["other"]. *)

type labels = (string * string) list

(** Counts. *)
module Point : sig
  type t

  val create : ?labels:labels -> ?unit:string -> string -> t

  val hit : t -> unit
  (** Adds one. Takes about a nanosecond, is exact over threads and domains, and allocates nothing. *)

  val add : t -> int -> unit
end

(** The time between any two places. *)
module Timer : sig
  type t

  type started = private int
  (** The moment at which a timer was started. Keep it anywhere, and stop it in any function, thread or domain. *)

  val create : ?labels:labels -> string -> t
  val start : t -> started

  val stop : t -> started -> unit
  (** Also counts the duration in a histogram. *)

  val time : t -> (unit -> 'a) -> 'a
  (** Times the function, even if it raises. *)

  val enter : t -> unit
  (** Starts an interval without a token, which [leave] ends. A running interval counts up to now; overlapping intervals
      add up. *)

  val leave : t -> unit
end

(** Named spans of the program's life: timers whose beginnings and ends are also in the log. *)
module Phase : sig
  type t

  val create : ?labels:labels -> string -> t
  val enter : t -> unit
  val leave : t -> unit

  val run : t -> (unit -> 'a) -> 'a
  (** Leaves the phase even if the function raises. *)
end

(** Values that viewers read from outside, or that functions compute while a viewer is present. A published value stays
    alive. *)
module Value : sig
  val int : ?labels:labels -> ?unit:string -> string -> int ref -> unit
  val bool : ?labels:labels -> string -> bool ref -> unit
  val float : ?labels:labels -> ?unit:string -> string -> float ref -> unit

  val string : ?labels:labels -> string -> string ref -> unit
  (** Viewers see the first 256 bytes. *)

  val any : ?labels:labels -> string -> 'a -> unit
  (** Shows the structure of any value: tables with their size and chains, queues, lists, trees, records. Strings in it are
      shown only to viewers who request contents. *)

  (** {2 Functions}

      A function is called while a viewer is present, every [period_ms] (default: 1000, or MEMPROFD_PERIOD in the
      environment). It runs after a minor collection, in the domain that created the first of them, like a signal handler:
      at any allocation. So it must not take locks or wait. An exception is reported and goes no further. *)

  val int_of : ?labels:labels -> ?unit:string -> ?period_ms:int -> string -> (unit -> int) -> unit
  val bool_of : ?labels:labels -> ?period_ms:int -> string -> (unit -> bool) -> unit
  val float_of : ?labels:labels -> ?unit:string -> ?period_ms:int -> string -> (unit -> float) -> unit
  val string_of : ?labels:labels -> ?period_ms:int -> string -> (unit -> string) -> unit

  val poll : unit -> unit
  (** The same as [poll] below. *)
end

val poll : unit -> unit
(** Calls functions that are due and runs requested actions. Use it in loops that do not allocate, and where actions with
    [only_at_poll] may run. *)

(** {1 Actions} *)

val on_request : ?only_at_poll:bool -> string -> (string -> string) -> unit
(** Registers an action for [memprofctl values call NAME ARGUMENT]. The reply is the result of the function, of which
    the first 3016 bytes count, or its exception, which goes no further. Arguments have up to 1024 bytes. The function
    runs after the next minor collection, under the same rules as functions of values; with [only_at_poll] only in
    [poll], so that the program decides when. One action runs at a time. Registering a name again replaces its function.
    There are at most sixteen names. *)

(** Marks on values: how many marked values live or have not been collected yet, and how much memory they hold; shared
    memory counts once. A mark keeps nothing alive. *)
module Tag : sig
  type t

  val create : ?labels:labels -> string -> t

  val mark : t -> 'a -> unit
  (** Takes some 20 nanoseconds in OCaml 4, 70 in OCaml 5, and 8 to 64 bytes per marked value that lives. Integers and
      other values without a block are not marked; a value that is marked twice counts twice. *)
end

(** Lines with their time, kept while a viewer is present: the last 256, with the first 216 bytes of each. *)
module Log : sig
  val is_on : unit -> bool
  (** True if a viewer is present. Check it before you compute costly arguments. *)

  val line : string -> unit

  val printf : ('a, unit, string, unit) format4 -> 'a
  (** Formats only while a viewer is present. *)
end

val pause : ?wait_ms:int -> string -> bool
(** Stops viewers: [memprofctl values watch] ends, or waits for its user, and the log has the name.
    With [wait_ms] the calling thread waits too, at most that long, until a viewer resumes it
    ([memprofctl values resume]), even one that arrives meanwhile. Returns true if a viewer resumed
    it. *)
