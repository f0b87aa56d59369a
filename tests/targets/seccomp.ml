(* SPDX-License-Identifier: Apache-2.0 *)
(* Runs under a seccomp filter; each command makes it allocate a little. *)

external install : unit -> bool = "seccomp_install"

let[@inline never] wake_up n = Sys.opaque_identity (Array.init n (fun i -> (i, i)))

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | _ ->
    for _ = 1 to 1_000 do ignore (wake_up 100) done;
    Gc.minor ();
    print_endline "awake";
    serve ()

let () =
  if not (install ()) then failwith "no seccomp filter";
  Handshake.ready ();
  serve ()
