(* SPDX-License-Identifier: Apache-2.0 *)
type labels = (string * string) list

let text labels = String.concat "\n" (List.map (fun (key, label) -> key ^ "=" ^ label) labels)

module Point = struct
  type t = Memprof_values_point.t

  let create ?(labels = []) ?(unit = "") name = Memprof_values_point.create name (text labels) unit
  let[@inline] hit point = Memprof_values_point.hit point
  let[@inline] add point hits = Memprof_values_point.add point hits
end

(* The cell's index, with the slot in the bits above. *)
external make_timer : int -> string -> string -> int = "memprof_values_ml_timer"

external start : unit -> (int[@untagged]) = "memprof_values_no_bytecode" "memprof_values_ml_start" [@@noalloc]

external stop : (int[@untagged]) -> (int[@untagged]) -> unit = "memprof_values_no_bytecode" "memprof_values_ml_stop"
  [@@noalloc]

external enter_timer : (int[@untagged]) -> unit = "memprof_values_no_bytecode" "memprof_values_ml_enter" [@@noalloc]
external leave_timer : (int[@untagged]) -> unit = "memprof_values_no_bytecode" "memprof_values_ml_leave" [@@noalloc]

external tell_phase : (int[@untagged]) -> bool -> unit = "memprof_values_no_bytecode" "memprof_values_ml_phase"
  [@@noalloc]

(* Calls [after] once; needs no stack frame for the result of [f]. *)
let always after f =
  match f () with
  | result -> after (); result
  | exception raised ->
    let backtrace = Printexc.get_raw_backtrace () in
    after ();
    Printexc.raise_with_backtrace raised backtrace

module Timer = struct
  type t = int
  type started = int

  let create ?(labels = []) name = make_timer 2 name (text labels)
  let[@inline] start (_ : t) = start ()
  let[@inline] stop timer started = stop timer started

  let time timer f =
    let started = start timer in
    always (fun () -> stop timer started) f

  let[@inline] enter timer = enter_timer timer
  let[@inline] leave timer = leave_timer timer
end

module Phase = struct
  type t = int

  let create ?(labels = []) name = make_timer 3 name (text labels)

  let enter phase =
    enter_timer phase;
    tell_phase phase true

  let leave phase =
    leave_timer phase;
    tell_phase phase false

  let run phase f =
    enter phase;
    always (fun () -> leave phase) f
end

module Value = struct
  external watch : string -> string -> string -> int -> int -> int -> 'a -> unit
    = "memprof_values_ml_watch_bytes" "memprof_values_ml_watch"

  external poll_at : bool -> unit = "memprof_values_ml_poll"
  external is_first : unit -> bool = "memprof_values_ml_first" [@@noalloc]

  let poll () = poll_at true

  (* enum memprof_value_type *)
  let an_int, a_float, a_bool, a_string, anything = 1, 2, 3, 4, 5

  (* enum memprof_value_source *)
  let of_ocaml, of_function = 1, 3

  let here labels unit kind name what = watch name (text labels) unit kind of_ocaml 0 what
  let int ?(labels = []) ?(unit = "") name (what : int ref) = here labels unit an_int name what
  let bool ?(labels = []) name (what : bool ref) = here labels "" a_bool name what
  let float ?(labels = []) ?(unit = "") name (what : float ref) = here labels unit a_float name what
  let string ?(labels = []) name (what : string ref) = here labels "" a_string name what
  let any ?(labels = []) name what = here labels "" anything name what

  (* A block that dies at the next minor collection; its finaliser creates the next one. *)
  let rec arm () = Gc.finalise_last on_death (Sys.opaque_identity (ref 0))

  and on_death () =
    poll_at false;
    arm ()

  let arm_once () = if is_first () then arm ()

  let result labels unit period_ms kind name f =
    watch name (text labels) unit kind of_function period_ms f;
    arm_once ()

  let int_of ?(labels = []) ?(unit = "") ?(period_ms = 0) name (f : unit -> int) =
    result labels unit period_ms an_int name f

  let bool_of ?(labels = []) ?(period_ms = 0) name (f : unit -> bool) = result labels "" period_ms a_bool name f

  let float_of ?(labels = []) ?(unit = "") ?(period_ms = 0) name (f : unit -> float) =
    result labels unit period_ms a_float name f

  let string_of ?(labels = []) ?(period_ms = 0) name (f : unit -> string) =
    result labels "" period_ms a_string name f
end

module Tag = struct
  type t = Memprof_values_tag.t

  let create ?(labels = []) name = Memprof_values_tag.create 5 1 name (text labels)

  let mark tag what =
    let what = Obj.repr what in
    if Obj.is_block what then Memprof_values_tag.mark tag what (Obj.repr 0)
end

module Log = struct
  open Bigarray

  (* Time until which a viewer is present; 0: none is. Reading it needs no C call, which in OCaml 5
     would switch stacks. *)
  external observed_until : unit -> (int, int_elt, c_layout) Array1.t = "memprof_values_ml_observed_until"
  external is_on_now : unit -> bool = "memprof_values_ml_observed" [@@noalloc]

  let until = observed_until ()
  let[@inline] is_on () = Array1.unsafe_get until 0 <> 0 && is_on_now ()

  external keep : string -> unit = "memprof_values_ml_line" [@@noalloc]

  let line text = if is_on () then keep text
  let printf format = if is_on () then Printf.ksprintf keep format else Printf.ikfprintf ignore () format
end

let poll = Value.poll

external answer_by : string -> bool -> (string -> string) -> unit = "memprof_values_ml_on_request"

let on_request ?(only_at_poll = false) name f =
  answer_by name only_at_poll f;
  if not only_at_poll then Value.arm_once ()

external begin_pause : string -> bool -> int = "memprof_values_ml_begin_pause" [@@noalloc]
external wait : int -> int -> int = "memprof_values_ml_wait"
external end_wait : unit -> unit = "memprof_values_ml_end_wait" [@@noalloc]
external now_ns : unit -> int = "memprof_values_ml_now" [@@noalloc]

let rec wait_until pause until_ns =
  match wait pause until_ns with
  | 0 -> wait_until pause until_ns
  | how -> how > 0

let pause ?(wait_ms = 0) name =
  let number = begin_pause name (wait_ms > 0) in
  wait_ms > 0 && always end_wait (fun () -> wait_until number (now_ns () + (wait_ms * 1_000_000)))
