(* SPDX-License-Identifier: Apache-2.0 *)
(* Has two modules with names of the OCaml compiler's. Each command allocates a little. *)

let () =
  Handshake.ready ();
  let rec serve () =
    match Handshake.command () with
    | [ "exit" ] -> ()
    | _ ->
      Array.iter (fun (step : Path.step) -> step.visits <- step.visits + 1) Path.flatten;
      Path.same := { name = "away"; visits = 2 } :: !Path.same;
      Parser.implementation := Parser.Word (string_of_int (List.length !Path.same)) :: !Parser.implementation;
      Printf.printf "{}\n%!";
      serve ()
  in
  serve ()
