(* SPDX-License-Identifier: Apache-2.0 *)
(* Calls Gc.Memprof.start and stop on command, even if another sampler is active. Commands:

     go N   allocates N triples (4 words each) and collects
     stop   Gc.Memprof.stop
     start  Gc.Memprof.start with its own tracker, at a rate of 1e-2
     start RATE   the same at another rate
     exit

   Each answers {"words":N,"own_samples":N,"failures":N}: words allocated by "go", samples of
   the program's own tracker, and calls that raised an exception. *)

let words = ref 0
let own_samples = ref 0
let failures = ref 0

let tracker =
  { Gc.Memprof.null_tracker with
    alloc_minor = (fun info -> own_samples := !own_samples + info.n_samples; None) }

let[@inline never] site_triple i = Sys.opaque_identity (i, i, i)

let go n =
  for i = 1 to n do ignore (site_triple i) done;
  words := !words + (4 * n);
  Gc.minor ()

let attempt f = try f () with Failure _ | Invalid_argument _ -> incr failures

let start sampling_rate =
  attempt (fun () -> ignore (Gc.Memprof.start ~sampling_rate ~callstack_size:0 tracker))

let answer () =
  Printf.printf "{\"words\":%d,\"own_samples\":%d,\"failures\":%d}\n%!" !words !own_samples !failures

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | command ->
    (match command with
     | [ "go"; n ] -> go (int_of_string n)
     | [ "stop" ] -> attempt Gc.Memprof.stop
     | [ "start" ] -> start 1e-2
     | [ "start"; rate ] -> start (float_of_string rate)
     | words -> failwith (String.concat " " words));
    answer ();
    serve ()

let () =
  Handshake.ready ();
  serve ();
  answer ()
