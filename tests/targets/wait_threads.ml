(* SPDX-License-Identifier: Apache-2.0 *)
(* Like waits.ml, with threads: one waits on a condition that is never signalled, one waits repeatedly with a delay,
   one waits for commands, and the main thread waits on a condition or for the end of another thread. *)

let kept = ref []
let delay_s = 0.2
let waits = ref 0
let wrong = ref 0
let mutex = Mutex.create ()
let never = Condition.create ()

let on_condition () =
  Mutex.lock mutex;
  let mine = Sys.opaque_identity (List.init 1_000 string_of_int) in
  while true do
    Condition.wait never mutex;
    incr wrong
  done;
  ignore (Sys.opaque_identity mine)

let in_delays () =
  while true do
    let began = Unix.gettimeofday () in
    Thread.delay delay_s;
    if Unix.gettimeofday () -. began < delay_s -. 0.002 then incr wrong;
    incr waits
  done

let rec commands () =
  match Handshake.command () with
  | [ "exit" ] -> exit 0
  | _ ->
    Printf.printf "{\"waits\":%d,\"wrong\":%d,\"kept\":%d}\n%!" !waits !wrong
      (List.length !kept);
    commands ()

let () =
  kept := List.init 20_000 (fun i -> (string_of_int i, Array.make (i mod 7) i, ref i));
  let waiter = Thread.create on_condition () in
  ignore (Thread.create in_delays ());
  Thread.delay 0.05;
  Gc.full_major ();
  Gc.full_major ();
  let s = Gc.stat () in
  Handshake.ready ();
  Printf.printf "{\"blocks\":%d,\"words\":%d,\"kept_words\":%d}\n%!" s.Gc.live_blocks s.live_words
    (Obj.reachable_words (Obj.repr !kept));
  ignore (Thread.create commands ());
  match Sys.argv.(1) with
  | "condition" -> on_condition ()
  | "join" -> Thread.join waiter
  | kind -> failwith kind
