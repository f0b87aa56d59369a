(* SPDX-License-Identifier: Apache-2.0 *)
(* Marked values of one domain, kept in weak arrays, which the daemon reads. The place of a dead
   value is reused: nothing moves, and new arrays are created only when most places are taken. A
   mark takes [step] places: its value and, if [step] is 2, the data that belongs to it, which may
   be an integer. *)
type store = {
  mutable arrays : Obj.Ephemeron.t array;
  mutable array : int; (* number of the array whose places are being filled *)
  mutable next : int; (* next place in it; all earlier ones have been tried *)
  step : int (* 1 or 2 *)
}

let array_size = 1024

external set_key : Obj.Ephemeron.t -> int -> Obj.t -> unit = "caml_ephe_set_key"

external next_free : Obj.Ephemeron.t -> (int[@untagged]) -> (int[@untagged]) -> (int[@untagged])
  = "memprof_values_no_bytecode" "memprof_values_ml_next_free"
  [@@noalloc]

external taken : Obj.Ephemeron.t -> (int[@untagged]) -> (int[@untagged])
  = "memprof_values_no_bytecode" "memprof_values_ml_taken"
  [@@noalloc]

let new_store step = { arrays = [||]; array = 0; next = 0; step }
let new_arrays count = Array.init count (fun _ -> Obj.Ephemeron.create array_size)

(* Copies the live values into fewer arrays, without extending their lives. *)
let copy_taken step arrays fewer =
  let next = ref 0 in
  let copy array place =
    let to_array = !next / array_size in
    if Obj.Ephemeron.check_key array place && to_array < Array.length fewer then begin
      let to_place = !next mod array_size in
      (* Copy the data first, because a value alone would count as a mark. *)
      if step = 2 then Obj.Ephemeron.blit_key array (place + 1) fewer.(to_array) (to_place + 1) 1;
      Obj.Ephemeron.blit_key array place fewer.(to_array) to_place 1;
      next := !next + step
    end
  in
  let copy_array array = for mark = 0 to (array_size / step) - 1 do copy array (mark * step) done in
  Array.iter copy_array arrays

(* All places have been tried. If more than half of them are free, they are tried again; otherwise
   the number of arrays doubles. If nearly all are free, it shrinks. Another thread or a finaliser
   may do the same meanwhile, and mark values: the first result is kept; it can be recognised
   because it is always another array of arrays. *)
let begin_anew store =
  let arrays = store.arrays in
  let places = Array.length arrays * array_size in
  let held = Array.fold_left (fun sum array -> sum + taken array store.step) 0 arrays in
  let better =
    if 2 * held >= places then Array.append arrays (new_arrays (max 1 (Array.length arrays)))
    else if 8 * held < places - array_size then begin
      let fewer = new_arrays (1 + (2 * held / array_size)) in
      copy_taken store.step arrays fewer;
      fewer
    end
    else Array.copy arrays
  in
  if store.arrays == arrays then begin
    store.arrays <- better;
    store.array <- 0;
    store.next <- 0
  end

(* beside: the data of the block; only for a store with two places per mark. *)
let rec mark_block store block beside =
  if store.array < Array.length store.arrays then begin
    let array = Array.unsafe_get store.arrays store.array in
    let place = next_free array store.next store.step in
    if place < array_size then begin
      store.next <- place + store.step;
      if store.step = 2 then set_key array (place + 1) beside;
      set_key array place block
    end
    else begin
      store.array <- store.array + 1;
      store.next <- 0;
      mark_block store block beside
    end
  end
  else begin
    begin_anew store;
    mark_block store block beside
  end
