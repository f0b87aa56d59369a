(* SPDX-License-Identifier: Apache-2.0 *)
(* Ends on command: "exit CODE", "raise". "hold MIB" keeps MIB MiB more, and answers "held". *)

let held = ref []

let[@inline never] hold mib =
  for _ = 1 to mib * 1024 do held := Bytes.make 1000 'x' :: !held done

let rec run () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "exit"; code ] -> exit (int_of_string code)
  | [ "raise" ] -> failwith "told to"
  | [ "hold"; mib ] ->
    hold (int_of_string mib);
    print_endline "held";
    run ()
  | _ -> run ()

let () =
  Handshake.ready ();
  run ()
