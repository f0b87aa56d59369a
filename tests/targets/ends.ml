(* SPDX-License-Identifier: Apache-2.0 *)
(* Ends as it is told: "exit CODE", "raise". "hold MIB" keeps so much more, "churn MIB"
   allocates so much, each block in the place of one before; both are answered by their past tense. *)

let held = ref []

let[@inline never] hold mib =
  for _ = 1 to mib * 1024 do held := Bytes.make 1000 'x' :: !held done

let places = Array.make 1000 Bytes.empty

let[@inline never] churn mib =
  for i = 1 to mib * 1024 do places.(i mod 1000) <- Bytes.make 1000 'x' done

let rec run () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "exit"; code ] -> exit (int_of_string code)
  | [ "raise" ] -> failwith "told to"
  | [ "hold"; mib ] ->
    hold (int_of_string mib);
    print_endline "held";
    run ()
  | [ "churn"; mib ] ->
    churn (int_of_string mib);
    print_endline "churned";
    run ()
  | _ -> run ()

let () =
  Handshake.ready ();
  run ()
