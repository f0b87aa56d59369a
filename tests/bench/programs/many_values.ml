(* SPDX-License-Identifier: Apache-2.0 *)
(* Linked with a module of a thousand references (Thousand), and one of a thousand on separate pages (Apart). "run N" does N
   turns, each of which allocates a list and sets some references, and answers {"cpu":S}, its CPU seconds. *)
let run n =
  let began = Sys.time () in
  for i = 1 to n do
    Thousand.value1 := List.length (Sys.opaque_identity (List.init 10 (fun j -> i + j)));
    Thousand.value500 := i;
    Thousand.value1000 := -i;
    Apart.value1 := i;
    Apart.value500 := -i
  done;
  Printf.printf "{\"cpu\":%.6f}\n%!" (Sys.time () -. began)

let rec serve () =
  match Handshake.command () with
  | [ "run"; n ] -> run (int_of_string n); serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
