(* SPDX-License-Identifier: Apache-2.0 *)
(* Lets C code allocate at the end of many paths: calls, exceptions, callbacks, fibers, finalisers, in threads and domains,
   with and without the runtime lock. It writes the completely unwound callstack of each block to a file (c_stacks_stubs.c).

   Commands: "run FILE N" allocates at least N blocks and answers their number; "minor" runs a minor collection. *)

external take : unit -> unit = "c_stacks_take"
external take_noalloc : unit -> unit = "c_stacks_take_noalloc" [@@noalloc]
external take_unlocked : unit -> unit = "c_stacks_take_unlocked"

external take_many : int -> int -> int -> int -> int -> int -> int -> int -> int = "c_stacks_byte" "c_stacks_take_many"

external call : (unit -> int) -> int = "c_stacks_call"
external begin_file : string -> unit = "c_stacks_begin"
external end_file : unit -> unit = "c_stacks_end"
external taken : unit -> int = "c_stacks_taken"

let paths = 3_000
let depth k = 3 + (k mod 29)

(* Half of the paths have no callback from C, during which OCaml 5 hides the frames outside a fiber. *)
let choice k i =
  let any = Hashtbl.hash (k, i) in
  if k land 1 = 0 then [| 0; 1; 4; 5 |].(any mod 4) else any mod 6

let[@inline never] noted () = take (); Sys.opaque_identity 1
let[@inline never] with_many () = take_many 1 1 1 1 1 1 1 1 + 1
let[@inline never] unlocked () = take_unlocked (); Sys.opaque_identity 1

(* Leaves a note at the place where the next call would have its own. *)
let[@inline never] deeper () = take (); Sys.opaque_identity ()
let[@inline never] further () = take_noalloc (); Sys.opaque_identity 0

(* Its frame has unwritten space, which may still contain an older note. *)
let[@inline never] holed k =
  if k < 0 then begin
    let value () = Sys.opaque_identity k in
    let a = value () in let b = value () in let c = value () in let d = value () in
    let e = value () in let f = value () in let g = value () in let h = value () in
    take ();
    a + b + c + d + e + f + g + h
  end
  else begin take_noalloc (); Sys.opaque_identity 1 end

let[@inline never] unnoted k =
  deeper ();
  match k mod 3 with
  | 0 -> take_noalloc (); Sys.opaque_identity 1
  | 1 -> 1 + further ()
  | _ -> 1 + holed k

let leaf k =
  match k mod 5 with 0 | 1 -> noted () | 2 -> with_many () | 3 -> unlocked () | _ -> unnoted k

let rec walk k i =
  if i = depth k then leaf k
  else match choice k i with
    | 0 -> plain k i
    | 1 -> guarded k i
    | 2 -> called k i
    | 3 -> raised k i
    | 4 -> fibered k i
    | _ -> folded k i

and plain k i = 1 + walk k (i + 1)
and guarded k i = match walk k (i + 1) with n -> n + 1 | exception Exit -> 0
and called k i = 1 + call (fun () -> walk k (i + 1) + 0)

(* The exception passes the frames of C code. *)
and raised k i =
  match call (fun () -> if walk k (i + 1) > 0 then raise Not_found else 0) with n -> n | exception Not_found -> 1

and fibered k i = 1 + Within.fiber (fun () -> walk k (i + 1) + 0)
and folded k i = List.fold_left (fun sum j -> sum + walk k j) 0 [ i + 1 ]

(* The runtime calls the finaliser during a collection, at an allocation of any thread. *)
let collected k =
  let done_ = ref false in
  Gc.finalise_last (fun () -> done_ := true; ignore (Sys.opaque_identity (walk k 0))) (ref k);
  let n = ref 300_000 in
  while !n > 0 && not !done_ do
    ignore (Sys.opaque_identity (ref !n));
    decr n
  done

let all last offset () =
  let k = ref offset in
  while taken () < last do
    if !k mod 97 = 0 then collected (!k mod paths) else ignore (Sys.opaque_identity (walk (!k mod paths) 0));
    incr k;
    if !k mod 16 = 0 then Thread.yield ()
  done

let run file n =
  begin_file file;
  let before = taken () in
  let last = before + n in
  let others = List.init 2 (fun i -> Within.aside (all last (900 * i))) in
  let threads = List.init 3 (fun i -> Thread.create (all last (1_700 + (700 * i))) ()) in
  all last 1_300 ();
  List.iter Thread.join threads;
  List.iter (fun join -> join ()) others;
  end_file ();
  taken () - before

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "run"; file; n ] -> Printf.printf "%d\n%!" (run file (int_of_string n)); serve ()
  | [ "minor" ] -> Gc.minor (); print_endline "minor"; serve ()
  | _ -> print_endline "failed"; serve ()

let () =
  Handshake.ready ();
  serve ()
