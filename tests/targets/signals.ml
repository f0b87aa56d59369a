(* SPDX-License-Identifier: Apache-2.0 *)
(* Works while a timer signal arrives every millisecond, and SIGUSR1 whenever others send it. At
   the end it prints the numbers of signals and of wrong sums. *)

let timer = ref 0
let usr1 = ref 0

let work () =
  let list = List.init 1_000 (fun i -> i) in
  List.fold_left ( + ) 0 list = 499_500

let rec run errors =
  let errors = if work () then errors else errors + 1 in
  match Handshake.poll_command () with
  | Some [ "exit" ] -> errors
  | Some _ | None -> run errors

let () =
  Sys.set_signal Sys.sigalrm (Sys.Signal_handle (fun _ -> incr timer));
  Sys.set_signal Sys.sigusr1 (Sys.Signal_handle (fun _ -> incr usr1));
  let interval = { Unix.it_interval = 0.001; it_value = 0.001 } in
  ignore (Unix.setitimer Unix.ITIMER_REAL interval);
  Handshake.ready ();
  let errors = run 0 in
  Printf.printf "{\"errors\":%d,\"timer\":%d,\"usr1\":%d}\n%!" errors !timer !usr1
