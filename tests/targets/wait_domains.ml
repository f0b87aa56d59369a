(* SPDX-License-Identifier: Apache-2.0 *)
(* Like wait_threads.ml, with domains: one waits on a condition, one sleeps repeatedly, and the main domain
   waits for their end. *)

let kept = ref []
let sleep_s = 0.2
let waits = Atomic.make 0
let wrong = Atomic.make 0
let mutex = Mutex.create ()
let never = Condition.create ()

let on_condition () =
  Mutex.lock mutex;
  let mine = Sys.opaque_identity (List.init 1_000 string_of_int) in
  while true do
    Condition.wait never mutex;
    Atomic.incr wrong
  done;
  ignore (Sys.opaque_identity mine)

let in_sleeps () =
  while true do
    let began = Unix.gettimeofday () in
    Unix.sleepf sleep_s;
    if Unix.gettimeofday () -. began < sleep_s -. 0.002 then Atomic.incr wrong;
    Atomic.incr waits
  done

let rec commands () =
  match Handshake.command () with
  | [ "exit" ] -> exit 0
  | _ ->
    Printf.printf "{\"waits\":%d,\"wrong\":%d,\"kept\":%d}\n%!" (Atomic.get waits) (Atomic.get wrong)
      (List.length !kept);
    commands ()

let () =
  kept := List.init 20_000 (fun i -> (string_of_int i, Array.make (i mod 7) i, ref i));
  let others = [ Domain.spawn on_condition; Domain.spawn in_sleeps ] in
  Unix.sleepf 0.1;
  Gc.full_major ();
  Gc.full_major ();
  let s = Gc.stat () in
  Handshake.ready ();
  Printf.printf "{\"blocks\":%d,\"words\":%d,\"kept_words\":%d}\n%!" s.Gc.live_blocks s.live_words
    (Obj.reachable_words (Obj.repr !kept));
  ignore (Thread.create commands ());
  List.iter Domain.join others
