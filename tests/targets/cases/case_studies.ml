(* SPDX-License-Identifier: Apache-2.0 *)
(* Three programs that keep more than they need, like real ones that the thesis on ocp-memprof describes: a
   parser whose generator's environment keeps the last tree, finalisers whose closures keep the buffers they
   should free, and a type checker that keeps all renamed types. "begin CASE" runs one, "work" allocates. *)

let numbers = 20_000

(* The tree is not needed, but stays on the stack in the environment of Parsing. *)
let parse () =
  let read = ref 0 in
  let token _ =
    incr read;
    if !read >= 2 * numbers then Case_parser.END
    else if !read land 1 = 1 then Case_parser.NUMBER !read
    else Case_parser.PLUS
  in
  ignore (Case_parser.sum token (Lexing.from_string ""))

type handle = { mutable is_open : bool; number : int }

let handles = ref []

let free handle buffer =
  handle.is_open <- false;
  ignore (Sys.opaque_identity (Array.length buffer))

let open_handles () =
  for number = 1 to 500 do
    let buffer = Array.init 200 (fun i -> Some i) in
    let handle = { is_open = true; number } in
    Gc.finalise (fun handle -> free handle buffer) handle;
    handles := handle :: !handles
  done

type ty = Variable of int | Arrow of ty * ty

let renamed : (int, ty) Hashtbl.t = Hashtbl.create 1_000
let rec rename depth n = if depth = 0 then Variable n else Arrow (rename (depth - 1) n, rename (depth - 1) (n + 1))

let check_types () =
  for n = 1 to 2_000 do
    Hashtbl.add renamed n (rename 4 n)
  done

let work () =
  for i = 1 to 100_000 do
    ignore (Sys.opaque_identity (ref i))
  done

let rec serve () =
  match Handshake.command () with
  | [ "work" ] ->
    work ();
    print_endline "done";
    serve ()
  | [ "begin"; case ] ->
    (match case with
    | "parser" -> parse ()
    | "finalisers" -> open_handles ()
    | _ -> check_types ());
    print_endline "done";
    serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ();
  ignore (Sys.opaque_identity !handles)
