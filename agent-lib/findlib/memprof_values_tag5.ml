(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: one store per domain; when a domain has ended, the next one of its index takes over the
   store. *)
open Memprof_values_store

(* The daemon reads the first field, as in OCaml 4. *)
type t = {
  all : store list Atomic.t;
  step : int; (* of the stores *)
  stores : store array; (* by the domain's index, which a new domain takes over from one that has ended *)
  rest : store Domain.DLS.key (* stores of domains with a higher index *)
}

external register : int -> string -> string -> t -> t = "memprof_values_ml_marks"
external domain : unit -> (int[@untagged]) = "memprof_values_no_bytecode" "memprof_values_ml_domain" [@@noalloc]

let indexes = 128
let none = new_store 1

let rec push list store =
  let before = Atomic.get list in
  if not (Atomic.compare_and_set list before (store :: before)) then push list store

let rec pop list =
  match Atomic.get list with
  | [] -> None
  | store :: rest as before -> if Atomic.compare_and_set list before rest then Some store else pop list

let add all step =
  let store = new_store step in
  push all store;
  store

let store_of_domain all step idle () =
  let store = match pop idle with Some store -> store | None -> add all step in
  Domain.at_exit (fun () -> push idle store);
  store

(* kind: enum memprof_slot_kind. *)
let create kind step name labels =
  let all = Atomic.make [] in
  let rest = Domain.DLS.new_key (store_of_domain all step (Atomic.make [])) in
  register kind name labels { all; step; stores = Array.make indexes none; rest }

(* If two threads of the domain get here at once, each at first marks in a store of its own. *)
let new_store_of tag index =
  if index >= indexes then Domain.DLS.get tag.rest
  else begin
    let store = add tag.all tag.step in
    tag.stores.(index) <- store;
    store
  end

let mark tag block beside =
  let index = domain () in
  let store = if index < indexes then Array.unsafe_get tag.stores index else none in
  mark_block (if store != none then store else new_store_of tag index) block beside
