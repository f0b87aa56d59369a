(* SPDX-License-Identifier: Apache-2.0 *)
(* Marked values of one domain: kept by weak arrays, which the daemon reads. A place whose value has died is taken again:
   nothing moves, and there are new arrays only when most places are taken. A mark takes [step] places: its value and, of
   two, what belongs to it, which may be an integer. *)
type store = {
  mutable arrays : Obj.Ephemeron.t array;
  mutable array : int; (* of which places are taken now *)
  mutable next : int; (* in it: all before have been looked at *)
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

(* What lives, without making it live longer, in fewer arrays. *)
let copy_taken step arrays fewer =
  let next = ref 0 in
  let copy array place =
    let to_array = !next / array_size in
    if Obj.Ephemeron.check_key array place && to_array < Array.length fewer then begin
      let to_place = !next mod array_size in
      (* What belongs to a value first: a value alone would be a mark. *)
      if step = 2 then Obj.Ephemeron.blit_key array (place + 1) fewer.(to_array) (to_place + 1) 1;
      Obj.Ephemeron.blit_key array place fewer.(to_array) to_place 1;
      next := !next + step
    end
  in
  let copy_array array = for mark = 0 to (array_size / step) - 1 do copy array (mark * step) done in
  Array.iter copy_array arrays

(* All places have been looked at. They are again when half of them are free; else there are twice as many, and when next to
   all are free, fewer. Another thread, or a finaliser, may do the same meanwhile, and mark: what the first one has made is
   kept, which is another array of arrays in any case. *)
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

(* beside: what belongs to the block; only of a store of two places. *)
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
