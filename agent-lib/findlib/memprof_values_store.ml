(* SPDX-License-Identifier: Apache-2.0 *)
(* Marked values of one domain: kept by weak arrays, which the daemon reads. *)
(* Weak arrays of as many places, one after the other. *)
type store = { mutable arrays : Obj.Ephemeron.t array; mutable next : int (* place to be filled *) }

let array_bits = 10
let array_size = 1 lsl array_bits

external set_key : Obj.Ephemeron.t -> int -> Obj.t -> unit = "caml_ephe_set_key"

let new_store () = { arrays = [||]; next = 0 }
let array_of arrays place = arrays.(place lsr array_bits)
let in_array place = place land (array_size - 1)

let is_alive arrays place = Obj.Ephemeron.check_key (array_of arrays place) (in_array place)

let count_alive arrays used =
  let alive = ref 0 in
  for place = 0 to used - 1 do
    if is_alive arrays place then incr alive
  done;
  !alive

(* What lives, without making it live longer. How many places it takes. *)
let copy_alive arrays used wider =
  let next = ref 0 in
  for place = 0 to used - 1 do
    if is_alive arrays place && !next lsr array_bits < Array.length wider then begin
      Obj.Ephemeron.blit_key (array_of arrays place) (in_array place) (array_of wider !next) (in_array !next) 1;
      incr next
    end
  done;
  !next

(* Goes over all places only after as many marks as half of them. Another thread, or a finaliser, may do the same
   meanwhile, and finds it full, too: what the first one has made is kept. *)
let widen store =
  let arrays = store.arrays in
  let used = Array.length arrays * array_size in
  let alive = count_alive arrays used in
  let wider = Array.init (1 + (2 * alive / array_size)) (fun _ -> Obj.Ephemeron.create array_size) in
  let next = copy_alive arrays used wider in
  if store.arrays == arrays then begin
    store.arrays <- wider;
    store.next <- next
  end

let rec mark_block store block =
  let place = store.next in
  let array = place lsr array_bits in
  if array < Array.length store.arrays then begin
    store.next <- place + 1;
    set_key (Array.unsafe_get store.arrays array) (in_array place) block
  end
  else begin
    widen store;
    mark_block store block
  end
