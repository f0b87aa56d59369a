(* SPDX-License-Identifier: Apache-2.0 *)
(* Blocks in a read from the start. After each line it allocates enough for a minor
   collection, or almost nothing for "touch". "open FIFO" blocks in the system call, in which
   memprofd cannot borrow the thread, until the other end is opened. *)

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
