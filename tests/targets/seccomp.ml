(* SPDX-License-Identifier: Apache-2.0 *)
(* seccomp kills|allows|kills-a-thread NUMBER...: runs under a seccomp filter that kills it for these
   system calls, or for all others; or only a second thread runs under it. It allocates a little at each
   command. *)

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
  let filter () = if not (install (Sys.argv.(1) = "allows") numbers) then failwith "no seccomp filter" in
  if Sys.argv.(1) <> "kills-a-thread" then filter ()
  else begin
    let filtered = ref false in
    let _ = Thread.create (fun () -> filter (); filtered := true; Thread.delay 1e6) () in
    while not !filtered do Thread.yield () done
  end;
  Handshake.ready ();
  serve ()
