(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: domains that each keep blocks of a tag of their own, and one that has ended, whose blocks are
   kept.

   Commands: "stat" collects everything and answers with Gc.stat and the addresses of the domains' states;
   "end" has a further domain end, and answers the same without any collection; "short" has one allocate
   much, keep nothing and end. *)

external state : unit -> string = "heap_shapes_state"

let workers = 3
let blocks = 2_000
let fields = 7
let first_tag = 50

let make tag = Array.init blocks (fun i -> Obj.new_block tag (if i mod 100 = 0 then 500 else fields))

let lock = Mutex.create ()
let changed = Condition.create ()
let states = ref []
let over = ref false

(* Until the end each worker waits in a blocking section. *)
let work i () =
  let kept = make (first_tag + i) in
  Mutex.lock lock;
  states := state () :: !states;
  Condition.broadcast changed;
  while not !over do Condition.wait changed lock done;
  Mutex.unlock lock;
  ignore (Sys.opaque_identity kept)

let answer (s : Gc.stat) =
  Printf.printf "{\"states\":[%s],\"live_blocks\":%d,\"live_words\":%d,\"heap_words\":%d}\n%!"
    (String.concat "," (List.map (Printf.sprintf "%S") !states))
    s.live_blocks s.live_words s.heap_words

let end_one tag = Domain.join (Domain.spawn (fun () -> make tag))

let allocate_much () = for i = 1 to 3_000_000 do ignore (Sys.opaque_identity (ref i)) done

let rec serve left =
  match Handshake.command () with
  | [ "stat" ] -> Gc.full_major (); answer (Gc.stat ()); serve left
  | [ "end" ] ->
    let more = end_one (first_tag + workers + 1) in
    answer (Gc.quick_stat ());
    serve (more :: left)
  | [ "short" ] -> Domain.join (Domain.spawn allocate_much); answer (Gc.quick_stat ()); serve left
  | _ -> ignore (Sys.opaque_identity left)

let () =
  let left = end_one (first_tag + workers) in
  let all = List.init workers (fun i -> Domain.spawn (work i)) in
  Mutex.lock lock;
  while List.length !states < workers do Condition.wait changed lock done;
  states := state () :: !states;
  Mutex.unlock lock;
  Handshake.ready ();
  serve [ left ];
  Mutex.lock lock;
  over := true;
  Condition.broadcast changed;
  Mutex.unlock lock;
  List.iter Domain.join all
