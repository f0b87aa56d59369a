(* Blocks in a read from the start; each line it reads makes it allocate a little. *)

let[@inline never] wake_up n = Sys.opaque_identity (Array.init n (fun i -> (i, i)))

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | _ ->
    for _ = 1 to 1_000 do ignore (wake_up 100) done;
    print_endline "awake";
    serve ()

let () =
  Handshake.ready ();
  serve ()
