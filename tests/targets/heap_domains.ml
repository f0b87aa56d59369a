(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: domains, each of which keeps blocks with its own tag, and one that has ended but whose blocks
   are kept.

   Commands: "stat" collects everything and answers Gc.stat and the addresses of the domains' states;
   "end" ends another domain, and answers the same without a collection; "short" runs a domain that
   allocates much, keeps nothing and ends; "stuck" runs a domain that repeatedly stays in C code for
   seconds, which others cannot stop; "park" suspends fibers whose stacks hold blocks with two tags. *)

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

(* Each worker waits in a blocking section until the end. *)
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

external hold : int -> unit = "heap_shapes_hold"

(* The other domains continue to allocate meanwhile, without a collection. *)
let be_stuck () =
  let is_over = Atomic.make false in
  let stuck = Domain.spawn (fun () -> for _ = 1 to 3 do hold 2_000 done; Atomic.set is_over true) in
  while not (Atomic.get is_over) do ignore (Sys.opaque_identity (ref 0)); hold 1 done;
  Domain.join stuck

let allocate_much () = for i = 1 to 3_000_000 do ignore (Sys.opaque_identity (ref i)) done

(* ------------------------------------------------------------ fibers *)

type _ Effect.t += Park : unit Effect.t

let parked : (unit, unit) Effect.Deep.continuation list ref = ref []
let fibers = 500

let[@inline never] wait_holding tag fields wait =
  let kept = Obj.new_block tag fields in
  wait ();
  ignore (Sys.opaque_identity kept)

let[@inline never] inner () = wait_holding 60 100 (fun () -> Effect.perform Park)

(* Runs in a nested fiber, whose handler handles no effect. *)
let[@inline never] outer () =
  wait_holding 61 3 (fun () ->
      Effect.Deep.try_with inner () { effc = (fun (type a) (_ : a Effect.t) -> None) };
      ignore (Sys.opaque_identity ()))

let park_one () =
  Effect.Deep.try_with outer ()
    { effc =
        (fun (type a) (eff : a Effect.t) ->
          match eff with
          | Park -> Some (fun (k : (a, unit) Effect.Deep.continuation) -> parked := k :: !parked)
          | _ -> None) }

let park () =
  parked := [];
  for _ = 1 to fibers do park_one () done;
  Gc.full_major ()

let rec serve left =
  match Handshake.command () with
  | [ "stat" ] -> Gc.full_major (); answer (Gc.stat ()); serve left
  | [ "end" ] ->
    let more = end_one (first_tag + workers + 1) in
    answer (Gc.quick_stat ());
    serve (more :: left)
  | [ "park" ] -> park (); answer (Gc.stat ()); serve left
  | [ "stuck" ] -> be_stuck (); answer (Gc.quick_stat ()); serve left
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
