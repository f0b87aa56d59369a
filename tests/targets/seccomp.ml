(* SPDX-License-Identifier: Apache-2.0 *)
(* seccomp kills|allows NUMBER...: runs under a seccomp filter that kills it for these system calls, or
   for all others. It allocates a little at each command. *)

external install : bool -> int array -> bool = "seccomp_install"

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
  let numbers = Array.map int_of_string (Array.sub Sys.argv 2 (Array.length Sys.argv - 2)) in
  if not (install (Sys.argv.(1) = "allows") numbers) then failwith "no seccomp filter";
  Handshake.ready ();
  serve ()
