(* SPDX-License-Identifier: Apache-2.0 *)
(* Loads plugins and runs them on command: load FILE.cmxs | go N | minor | memprof | exit.
   After memprof, the program uses Gc.Memprof itself. *)

let[@inline never] site_in_host n =
  for i = 1 to n do ignore (Sys.opaque_identity (i, i)) done

let[@inline never] round n =
  List.iter (fun (_, work) -> work n (fun () -> site_in_host n)) !Plugin_api.all;
  ignore (Sys.opaque_identity 1)

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | words ->
    (match words with
    | [ "load"; file ] -> Dynlink.loadfile_private file
    | [ "memprof" ] -> ignore (Gc.Memprof.start ~sampling_rate:1e-6 Gc.Memprof.null_tracker)
    | [ "go"; n ] -> round (int_of_string n)
    | _ -> Gc.minor ());
    Printf.printf "{\"plugins\":%d}\n%!" (List.length !Plugin_api.all);
    serve ()

let () =
  List.iter Dynlink.loadfile_private (List.tl (Array.to_list Sys.argv));
  Handshake.ready ();
  serve ()
