(* SPDX-License-Identifier: Apache-2.0 *)
(* Profiles itself with Gc.Memprof, which other profilers must not disturb. At the
   end it prints its number of samples and of allocated words. *)

let samples = ref 0

let tracker =
  { Gc.Memprof.null_tracker with
    alloc_minor = (fun info -> samples := !samples + info.n_samples; Some ());
    alloc_major = (fun info -> samples := !samples + info.n_samples; None) }

let[@inline never] allocate () =
  for i = 1 to 100_000 do ignore (Sys.opaque_identity (i, i, i)) done

let rec run rounds =
  allocate ();
  match Handshake.poll_command () with
  | Some [ "exit" ] -> rounds + 1
  | Some _ | None -> run (rounds + 1)

let () =
  Gc.Memprof.start ~sampling_rate:1e-4 ~callstack_size:10 tracker;
  Handshake.ready ();
  let rounds = run 0 in
  Gc.Memprof.stop ();
  Printf.printf "{\"samples\":%d,\"words\":%d}\n%!" !samples (rounds * 400_000)
