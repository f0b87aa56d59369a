(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: allocates in fibers of every kind: nested ones, ones that grow and move, ones that are
   resumed on another stack than the one they were suspended on, discontinued ones, dropped ones, and
   with C code between that calls OCaml. Commands:

     go N        runs N rounds
     deep N      runs N rounds on a stack of 200 frames
     thread      starts another thread that works from then on
     spawn       starts a domain that works from then on; its parent is the domain that answers
     join        ends all spawned domains
     stop        Gc.Memprof.stop
     start       Gc.Memprof.start with its own tracker, which counts samples
     exit

   Each answers {"rounds":N,"own_samples":N}. *)

external by_c : (unit -> int) -> int = "fibers_by_c"

let sink = Atomic.make 0
let use n = Atomic.set sink ((Atomic.get sink + n) land 0xFFFFFFF)
let[@inline never] pair i = fst (Sys.opaque_identity (i, [ i ]))
let[@inline never] text i = String.length (Sys.opaque_identity (String.make (1 + (i land 31)) 'f')) (* C code allocates *)
let[@inline never] rec deep n i = if n = 0 then pair i + text i else 1 + deep (n - 1) i + pair n

type _ Effect.t += Wait : int -> int Effect.t

open Effect.Deep

(* The stack grows, also in a fiber, while the agent remembers frames of it. *)
let[@inline never] rec growing n i =
  let a = pair i in
  if n = 0 then a else a + growing (n - 1) i + text n

let[@inline never] nested_in i inner =
  match_with
    (fun () -> let a = pair i in a + inner () + Effect.perform (Wait i) + pair a)
    ()
    { retc = (fun n -> n + pair n);
      exnc = raise;
      effc = (fun (type a) (eff : a Effect.t) ->
        match eff with
        | Wait n -> Some (fun (k : (a, _) continuation) -> let b = pair n in continue k (b + 1))
        | _ -> None) }

let[@inline never] rec nested depth i =
  nested_in i (fun () -> if depth = 0 then growing (i land 255) i else nested (depth - 1) i + growing 20 i)

exception Gone of int

(* Suspended fibers. They are resumed on a stack of another depth, by another fiber or by another thread. *)
let waiting : (int, int) continuation Queue.t = Queue.create ()
let waiting_lock = Mutex.create ()

let[@inline never] suspended i =
  match_with
    (fun () ->
      let a = growing (i mod 90) i in
      let b = Effect.perform (Wait a) in
      let c = growing (b mod 300) i in
      (try pair (c + Effect.perform (Wait c)) with Gone n -> pair n) + pair c)
    ()
    { retc = Fun.id;
      exnc = (function Gone n -> n | e -> raise e);
      effc = (fun (type a) (eff : a Effect.t) ->
        match eff with
        | Wait n -> Some (fun (k : (a, _) continuation) ->
            Mutex.protect waiting_lock (fun () -> Queue.add k waiting);
            pair n)
        | _ -> None) }

let[@inline never] rec resumed_from depth i =
  if depth > 0 then pair i + resumed_from (depth - 1) i + pair depth
  else
    match Mutex.protect waiting_lock (fun () -> Queue.take_opt waiting) with
    | None -> 0
    | Some k when i mod 5 = 0 -> pair (discontinue k (Gone i)) + pair i
    | Some k -> pair (continue k i) + pair i

(* With C code between: effects performed inside cannot reach outer fibers, but walks still pass the C frames. *)
let[@inline never] between i = by_c (fun () -> growing (i mod 30) i + by_c (fun () -> nested 1 i + pair i)) + pair i

let[@inline never] in_a_fiber i f =
  match_with f () { retc = Fun.id; exnc = raise; effc = (fun _ -> use (pair i); None) }

let[@inline never] rec raising n i =
  use (pair i);
  if n = 0 then raise (Gone i) else 1 + (try raising (n - 1) i with Not_found -> pair n) + pair n

let rounds = Atomic.make 0

let round i =
  use (nested (i mod 4) i);
  use (suspended i);
  use (resumed_from (i mod 70) i);
  if i mod 3 = 0 then use (in_a_fiber i (fun () -> resumed_from (i mod 11) i + between i));
  use (between i);
  (try use (in_a_fiber i (fun () -> raising (i mod 40) i)) with Gone n -> use (pair n));
  use (deep (i mod 120) i);
  if i mod 500 = 0 then (Queue.clear waiting; Gc.full_major ());
  Atomic.incr rounds

let go n =
  let first = Atomic.get rounds in
  for i = first to first + n - 1 do round i done

let[@inline never] rec on_a_stack depth n = if depth = 0 then (go n; 1) else 1 + on_a_stack (depth - 1) n

let stopping = Atomic.make false
let spawned = ref []

let work () = while not (Atomic.get stopping) do go 5; Unix.sleepf 0.0005 done

let own_samples = Atomic.make 0

let own_tracker =
  { Gc.Memprof.null_tracker with
    alloc_minor = (fun info -> ignore (Atomic.fetch_and_add own_samples info.n_samples); None) }

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | command ->
    (match command with
     | [ "go"; n ] -> go (int_of_string n)
     | [ "deep"; n ] -> use (on_a_stack 200 (int_of_string n))
     | [ "thread" ] -> ignore (Thread.create work ())
     | [ "spawn" ] -> spawned := Domain.spawn work :: !spawned
     | [ "join" ] ->
       Atomic.set stopping true;
       List.iter Domain.join !spawned;
       spawned := [];
       Atomic.set stopping false
     | [ "stop" ] -> (try Gc.Memprof.stop () with Failure _ -> ())
     | [ "start" ] -> ignore (Gc.Memprof.start ~sampling_rate:1e-2 ~callstack_size:10 own_tracker)
     | _ -> ());
    Printf.printf "{\"rounds\":%d,\"own_samples\":%d}\n%!" (Atomic.get rounds) (Atomic.get own_samples);
    serve ()

let () =
  Handshake.ready ();
  serve ();
  Atomic.set stopping true;
  List.iter Domain.join !spawned
