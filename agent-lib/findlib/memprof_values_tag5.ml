(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: a store for each domain; that of one that has ended is the next one's. *)
open Memprof_values_store

(* The first field is what the daemon reads, as in OCaml 4. *)
type t = { all : store list Atomic.t; key : store Domain.DLS.key }

external register : string -> string -> t -> t = "memprof_values_ml_tag"

let rec push list store =
  let before = Atomic.get list in
  if not (Atomic.compare_and_set list before (store :: before)) then push list store

let rec pop list =
  match Atomic.get list with
  | [] -> None
  | store :: rest as before -> if Atomic.compare_and_set list before rest then Some store else pop list

let store_of_domain all idle () =
  let store =
    match pop idle with
    | Some store -> store
    | None ->
      let store = new_store () in
      push all store;
      store
  in
  if not (Domain.is_main_domain ()) then Domain.at_exit (fun () -> push idle store);
  store

let create name labels =
  let all = Atomic.make [] in
  register name labels { all; key = Domain.DLS.new_key (store_of_domain all (Atomic.make [])) }

let mark tag block = mark_block (Domain.DLS.get tag.key) block
