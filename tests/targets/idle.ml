(* SPDX-License-Identifier: Apache-2.0 *)
(* Blocks in a read from the start; each line it reads makes it allocate: enough for a
   minor collection or, told to "touch", hardly anything. Told to "open" a FIFO it blocks in that call,
   in which no thread can be borrowed, until somebody opens the other end. *)

let[@inline never] wake_up n = Sys.opaque_identity (Array.init n (fun i -> (i, i)))

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "touch" ] ->
    Printf.printf "%d\n%!" (Gc.quick_stat ()).Gc.minor_collections;
    serve ()
  | [ "open"; fifo ] ->
    Unix.close (Unix.openfile fifo [ Unix.O_RDONLY ] 0);
    serve ()
  | _ ->
    for _ = 1 to 1_000 do ignore (wake_up 100) done;
    print_endline "awake";
    serve ()

let () =
  Handshake.ready ();
  serve ()
