(* SPDX-License-Identifier: Apache-2.0 *)
(* Threads that block SIGURG and threads that do not:
     masks THREADS    the main thread blocks it and allocates continuously; THREADS other threads do
                      not block it and allocate a little occasionally
   Commands: "open" unblocks it in the main thread. Each command answers the number of correct rounds
   of work, or -1 if one was wrong. *)

let rounds = ref 0

let[@inline never] work n =
  let list = List.init n (fun i -> i) in
  if List.fold_left ( + ) 0 list <> n * (n - 1) / 2 then rounds := min_int else incr rounds

let rec other () =
  work 10;
  Thread.delay 0.005;
  other ()

let rec run () =
  for _ = 1 to 100 do work 1_000 done;
  match Handshake.poll_command () with
  | Some [ "exit" ] -> ()
  | Some words ->
    if words = [ "open" ] then ignore (Thread.sigmask Unix.SIG_UNBLOCK [ Sys.sigurg ]);
    Printf.printf "%d\n%!" (max !rounds (-1));
    run ()
  | None -> run ()

let () =
  for _ = 1 to Handshake.int_argument 1 0 do ignore (Thread.create other ()) done;
  ignore (Thread.sigmask Unix.SIG_BLOCK [ Sys.sigurg ]);
  Handshake.ready ();
  run ()
