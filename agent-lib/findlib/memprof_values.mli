(* SPDX-License-Identifier: Apache-2.0 *)
(** What a program says about itself, for memprofd to read from outside, while it runs.

    Nothing is sent and nothing waits: all is kept in the program's own memory. While nobody looks, points and timers
    count, and the rest does nothing.

    Names are keys: who creates a name again, with the same labels, gets the same. They may be 63 bytes long, all labels
    together 103, units 15; what is longer is cut. There are 509 in all, of them 127 timers and phases; points and timers
    beyond count together, as ["other"]. *)

type labels = (string * string) list

(** Counts. *)
module Point : sig
  type t

  val create : ?labels:labels -> ?unit:string -> string -> t

  val hit : t -> unit
  (** About a nanosecond; exact over threads and domains; allocates nothing. *)

  val add : t -> int -> unit
end

(** Time between any two places. *)
module Timer : sig
  type t

  type started = private int
  (** When a timer was started: keep it anywhere, stop it in any function, thread or domain. *)

  val create : ?labels:labels -> string -> t
  val start : t -> started

  val stop : t -> started -> unit
  (** Also counts how long it took, in a bucket of a histogram. *)

  val time : t -> (unit -> 'a) -> 'a
  (** Also when the function raises. *)

  val enter : t -> unit
  (** Start without a token, to be stopped by [leave]: what runs now counts up to now; intervals that overlap add up. *)

  val leave : t -> unit
end

(** Named spans of the program's life: timers whose begins and ends are in the log, too. *)
module Phase : sig
  type t

  val create : ?labels:labels -> string -> t
  val enter : t -> unit
  val leave : t -> unit

  val run : t -> (unit -> 'a) -> 'a
  (** Also when the function raises. *)
end

(** Values that are read from outside, or evaluated while somebody looks. What is watched stays alive. *)
module Value : sig
  val int : ?labels:labels -> ?unit:string -> string -> int ref -> unit
  val bool : ?labels:labels -> string -> bool ref -> unit
  val float : ?labels:labels -> ?unit:string -> string -> float ref -> unit

  val string : ?labels:labels -> string -> string ref -> unit
  (** The first 256 bytes are shown. *)

  val any : ?labels:labels -> string -> 'a -> unit
  (** Structure as it is: tables with their size and chains, queues, lists, trees, records. What strings in it have is
      shown to those who ask for contents. *)

  (** {2 Functions}

      Evaluated after a minor collection, in the domain that created the first of them, when somebody looks and
      [period_ms] is over (1000, or environment's MEMPROFD_PERIOD): as a signal handler is, at any allocation. So they
      must not take locks or wait. What they raise is told, and goes no further. *)

  val int_of : ?labels:labels -> ?unit:string -> ?period_ms:int -> string -> (unit -> int) -> unit
  val bool_of : ?labels:labels -> ?period_ms:int -> string -> (unit -> bool) -> unit
  val float_of : ?labels:labels -> ?unit:string -> ?period_ms:int -> string -> (unit -> float) -> unit
  val string_of : ?labels:labels -> ?period_ms:int -> string -> (unit -> string) -> unit

  val poll : unit -> unit
  (** As [poll] below. *)
end

val poll : unit -> unit
(** Evaluates functions that are due and answers requests: for loops that do not allocate, and as the place for what must
    not happen in the middle of anything. *)

(** {1 Requests} *)

val on_request : ?only_at_poll:bool -> string -> (string -> string) -> unit
(** What [memprofctl ask NAME ARGUMENT] has the program do: it answers with what the function returns, of which the first
    3016 bytes count, or with the exception that it raises, which goes no further. Arguments are up to 1024 bytes long. The
    function is called after the next minor collection, as functions of values are and under the same rules; with
    [only_at_poll] only in [poll], so that the program decides when. One at a time; the function that is given last
    counts. Sixteen names at most. *)

(** Marks on values: how many of those that are marked live, or have not been collected yet, and how much memory they
    hold, what several of them share counted once. Marks keep nothing alive. *)
module Tag : sig
  type t

  val create : ?labels:labels -> string -> t

  val mark : t -> 'a -> unit
  (** Some 20 nanoseconds in OCaml 4, 70 in OCaml 5, and 8 to 64 bytes for each marked value that lives. What is no block
      of memory, as an integer, is not marked; what is marked twice counts twice. *)
end

(** Lines with their time, kept while somebody looks: the last 256, of each the first 216 bytes. *)
module Log : sig
  val is_on : unit -> bool
  (** Whether somebody looks: ask before arguments that are costly. *)

  val line : string -> unit

  val printf : ('a, unit, string, unit) format4 -> 'a
  (** Formats only while somebody looks. *)
end

val pause : ?wait_ms:int -> string -> bool
(** Viewers stop here: [memprofctl watch] ends, or waits for who looks, and the log has the name. With [wait_ms] the thread
    waits, too, until a viewer has it go on ([memprofctl resume]), one who comes meanwhile as well, but no longer than that.
    Whether a viewer has. *)
