(* SPDX-License-Identifier: Apache-2.0 *)
external now_ns : unit -> int = "memprof_values_ml_now" [@@noalloc]
external set_region : string -> int -> int -> int -> unit = "memprof_check_ml_region" [@@noalloc]
external is_checked : unit -> bool = "memprof_check_ml_is_checked" [@@noalloc]
external begin_point : unit -> int = "memprof_check_ml_begin_point" [@@noalloc]
external wait : int -> int -> bool = "memprof_check_ml_wait"
external end_point : int -> unit = "memprof_check_ml_end_point" [@@noalloc]

(* True once an assertion exists. *)
let has_any = ref false

(* Names are few, so a list suffices. An entry that another thread adds meanwhile may get lost; the registry finds it again. *)
type assertion = {
  name : string;
  marks : Memprof_values_tag.t
}

let most_names = 509

let rec find name = function
  | [] -> raise_notrace Not_found
  | one :: rest -> if one.name == name || String.equal one.name name then one.marks else find name rest

(* kind: enum memprof_slot_kind. Each mark takes two places of the weak array. *)
let add known kind name =
  has_any := true;
  let marks = Memprof_values_tag.create kind 2 name "" in
  known := { name; marks } :: !known;
  marks

let mark known kind name block beside =
  match find name !known with
  | marks -> Memprof_values_tag.mark marks block beside
  | exception Not_found ->
    if List.length !known < most_names then Memprof_values_tag.mark (add known kind name) block beside

let unreachable_ones = ref []
let dying_ones = ref []

(* At most a century; a time that is not a number counts as 0. *)
let ns_of seconds = if seconds > 0. then int_of_float (Float.min seconds 3e9 *. 1e9) else 0

let unreachable ?(after = 0.) name what =
  let what = Obj.repr what in
  if Obj.is_block what then mark unreachable_ones 7 name what (Obj.repr (now_ns () + ns_of after))

let dies_before name what ~other =
  let what = Obj.repr what and other = Obj.repr other in
  if Obj.is_block what && Obj.is_block other then mark dying_ones 8 name what other

let end_region name max_bytes began_ns = set_region name (max 0 max_bytes) began_ns (now_ns ())

let region name ~max_bytes f =
  let began_ns = now_ns () in
  has_any := true;
  match f () with
  | result ->
    end_region name max_bytes began_ns;
    result
  | exception raised ->
    let backtrace = Printexc.get_raw_backtrace () in
    end_region name max_bytes began_ns;
    Printexc.raise_with_backtrace raised backtrace

let verify () =
  if !has_any && is_checked () then begin
    let began_ns = now_ns () in
    let point = begin_point () in
    match while not (wait point began_ns) do () done with
    | () -> end_point point
    | exception raised ->
      end_point point;
      raise raised
  end

let () = at_exit verify
