(* SPDX-License-Identifier: Apache-2.0 *)
(* The bundled demo: a small HTTP server with three patterns of memory use.

     Sessions  stores every visitor and removes none: the leak
     Cache     keeps the most recently used pages: bounded, blocks live for seconds
     Request   parses requests and drops them: blocks live for microseconds

   demo_server [--port PORT] [--self-load CONNECTIONS] [--rate REQUESTS_PER_SECOND]

   Listens on 127.0.0.1 (port 0: any free port), prints "ready PORT PID", exits on SIGTERM
   or SIGINT. With --self-load it sends requests to itself over loopback. *)

let port = ref 0
let connections = ref 0
let requests_per_second = ref 1_500
let stopping = Atomic.make false
let served = Atomic.make 0

(* Blocking input and output of lines on a socket. It uses no channels, so that the
   profile shows the server's own allocations. *)
module Wire = struct
  type t = {
    socket : Unix.file_descr;
    chunk : Bytes.t; (* input that has been read but not taken is in [start, stop) *)
    out : Bytes.t;
    mutable start : int;
    mutable stop : int;
  }

  let create socket = { socket; chunk = Bytes.create 4_096; out = Bytes.create 512; start = 0; stop = 0 }

  let refill wire =
    wire.start <- 0;
    wire.stop <- Unix.read wire.socket wire.chunk 0 (Bytes.length wire.chunk);
    if wire.stop = 0 then raise End_of_file

  let rec read_line_into wire line =
    if wire.start = wire.stop then refill wire;
    let available = wire.stop - wire.start in
    match Bytes.index_from wire.chunk wire.start '\n' with
    | eol when eol < wire.stop ->
      Buffer.add_subbytes line wire.chunk wire.start (eol - wire.start);
      wire.start <- eol + 1
    | _ | (exception Not_found) ->
      Buffer.add_subbytes line wire.chunk wire.start available;
      wire.start <- wire.stop;
      read_line_into wire line

  let rec read_exactly wire buffer n =
    if n > 0 then begin
      if wire.start = wire.stop then refill wire;
      let taken = min n (wire.stop - wire.start) in
      Buffer.add_subbytes buffer wire.chunk wire.start taken;
      wire.start <- wire.start + taken;
      read_exactly wire buffer (n - taken)
    end

  let rec write_from wire text from =
    let left = String.length text - from in
    if left > 0 then write_from wire text (from + Unix.write_substring wire.socket text from left)

  let write wire text = write_from wire text 0

  (* For the short heads of answers: sends without allocating. *)
  let write_buffer wire buffer =
    let length = min (Buffer.length buffer) (Bytes.length wire.out) in
    Buffer.blit buffer 0 wire.out 0 length;
    let rec go from =
      if from < length then go (from + Unix.write wire.socket wire.out from (length - from))
    in
    go 0
end

module Request = struct
  type t = {
    meth : string;
    path : string list;
    query : (string * string) list;
    headers : (string * string) list;
    body : string;
  }

  let cut_at c text =
    match String.index_opt text c with
    | None -> (text, "")
    | Some i -> (String.sub text 0 i, String.sub text (i + 1) (String.length text - i - 1))

  let parse_query text =
    if text = "" then [] else List.map (cut_at '=') (String.split_on_char '&' text)

  let parse_header line =
    let name, value = cut_at ':' line in
    (String.lowercase_ascii name, String.trim value)

  let parse_target target =
    let path, query = cut_at '?' target in
    (List.filter (( <> ) "") (String.split_on_char '/' path), parse_query query)

  let rec read_headers wire line headers =
    Buffer.clear line;
    Wire.read_line_into wire line;
    match String.trim (Buffer.contents line) with
    | "" -> headers
    | text -> read_headers wire line (parse_header text :: headers)

  let read_body wire line headers =
    match List.assoc_opt "content-length" headers with
    | None -> ""
    | Some length ->
      Buffer.clear line;
      Wire.read_exactly wire line (int_of_string length);
      Buffer.contents line

  let read wire line =
    Buffer.clear line;
    Wire.read_line_into wire line;
    match String.split_on_char ' ' (String.trim (Buffer.contents line)) with
    | [ meth; target; _version ] ->
      let path, query = parse_target target in
      let headers = read_headers wire line [] in
      { meth; path; query; headers; body = read_body wire line headers }
    | _ -> failwith "malformed request line"
end

(* Parses the bodies of orders: numbers, strings and lists. *)
module Order_parser = struct
  type value = Number of float | Text of string | Items of value list

  let rec parse text from =
    match text.[from] with
    | '[' -> parse_items text (from + 1) []
    | '"' ->
      let stop = String.index_from text (from + 1) '"' in
      (Text (String.sub text (from + 1) (stop - from - 1)), stop + 1)
    | _ -> parse_number text from from

  and parse_items text from items =
    match text.[from] with
    | ']' -> (Items (List.rev items), from + 1)
    | ',' -> parse_items text (from + 1) items
    | _ ->
      let item, next = parse text from in
      parse_items text next (item :: items)

  and parse_number text from stop =
    match text.[stop] with
    | '0' .. '9' | '.' | '-' -> parse_number text from (stop + 1)
    | _ -> (Number (float_of_string (String.sub text from (stop - from))), stop)

  let rec total = function
    | Number n -> n
    | Text _ -> 0.
    | Items items -> List.fold_left (fun sum item -> sum +. total item) 0. items

  let order_total body = total (fst (parse body 0))
end

(* The leak: sessions are never removed from the table. *)
module Sessions = struct
  type session = {
    id : int;
    agent : string;
    started : float;
    draft : Bytes.t; (* text that the visitor has typed but not sent *)
    mutable visited : string list;
  }

  let table : (int, session) Hashtbl.t = Hashtbl.create 1_024
  let lock = Mutex.create ()
  let next_id = ref 0 and most = ref 0 (* 0: unlimited, the leak *)

  let make_session id agent =
    { id; agent; started = Unix.gettimeofday (); draft = Bytes.create 3_000; visited = [] }

  let remember agent path =
    Mutex.lock lock;
    let id = !next_id in
    incr next_id;
    let session = make_session id agent in
    session.visited <- List.map String.uppercase_ascii path;
    Hashtbl.replace table id session; if !most > 0 then Hashtbl.remove table (id - !most);
    Mutex.unlock lock;
    id

  let count () = Hashtbl.length table
end

(* Least recently used pages: a table, and a queue of (key, generation). *)
module Cache = struct
  type page = { text : string; mutable generation : int }

  let capacity = 1_000
  let table : (string, page) Hashtbl.t = Hashtbl.create capacity
  let uses : (string * int) Queue.t = Queue.create ()
  let clock = ref 0
  let lock = Mutex.create ()

  let touch key page =
    incr clock;
    page.generation <- !clock;
    Queue.push (key, !clock) uses

  let rec evict () =
    if Hashtbl.length table > capacity then begin
      let key, generation = Queue.pop uses in
      (match Hashtbl.find_opt table key with
      | Some page when page.generation = generation -> Hashtbl.remove table key
      | Some _ | None -> ());
      evict ()
    end

  (* Drops uses that later ones have made obsolete, so that the queue stays short. *)
  let rec trim () =
    match Queue.peek_opt uses with
    | Some (key, generation) when Queue.length uses > 4 * capacity -> (
      match Hashtbl.find_opt table key with
      | Some page when page.generation = generation -> ()
      | Some _ | None -> ignore (Queue.pop uses); trim ())
    | Some _ | None -> ()

  (* Makes an exact copy, so that a cached page does not keep a larger buffer alive. *)
  let copy buffer =
    let text = Bytes.create (Buffer.length buffer) in
    Buffer.blit buffer 0 text 0 (Bytes.length text);
    Bytes.unsafe_to_string text

  let find_or_add key render =
    Mutex.lock lock;
    let page =
      match Hashtbl.find_opt table key with
      | Some page -> page
      | None ->
        let page = { text = copy (render ()); generation = 0 } in
        Hashtbl.replace table key page;
        page
    in
    touch key page;
    evict ();
    trim ();
    Mutex.unlock lock;
    page.text
end

module Render = struct
  let row buffer index =
    Buffer.add_string buffer "<tr><td>";
    Buffer.add_string buffer (string_of_int index);
    Buffer.add_string buffer "</td><td>a line of the page</td></tr>\n"

  (* The caller holds the cache's lock. *)
  let buffer = Buffer.create 4_096

  let page title =
    Buffer.clear buffer;
    Buffer.add_string buffer "<h1>";
    Buffer.add_string buffer title;
    Buffer.add_string buffer "</h1><table>\n";
    for index = 1 to 40 do row buffer index done;
    Buffer.add_string buffer "</table>\n";
    buffer
end

module Server = struct
  let has_session headers =
    match List.assoc_opt "cookie" headers with
    | Some cookie -> String.length cookie > 8
    | None -> false

  (* Returns the status and the body. *)
  let respond (request : Request.t) =
    if not (has_session request.headers) then
      ignore
        (Sessions.remember
           (Option.value (List.assoc_opt "user-agent" request.headers) ~default:"unknown")
           request.path);
    match (request.meth, request.path) with
    | "GET", [ "page"; name ] ->
      ("200 OK", Cache.find_or_add name (fun () -> Render.page name))
    | "POST", [ "order" ] ->
      ("200 OK", "total " ^ string_of_float (Order_parser.order_total request.body) ^ "\n")
    | "GET", [ "sessions" ] ->
      ("200 OK", string_of_int (Sessions.count ()) ^ "\n")
    | _ -> ("404 Not Found", "no such page\n")

  let send wire head (status, body) =
    Buffer.clear head;
    List.iter (Buffer.add_string head)
      [ "HTTP/1.1 "; status; "\r\nContent-Type: text/html\r\nContent-Length: ";
        string_of_int (String.length body); "\r\n\r\n" ];
    Wire.write_buffer wire head;
    Wire.write wire body

  let serve_connection socket =
    let wire = Wire.create socket and line = Buffer.create 256 in
    (try
       while not (Atomic.get stopping) do
         send wire line (respond (Request.read wire line));
         Atomic.incr served
       done
     with End_of_file | Unix.Unix_error _ | Failure _ | Invalid_argument _ | Not_found -> ());
    try Unix.close socket with Unix.Unix_error _ -> ()

  let listen () =
    let socket = Unix.socket ~cloexec:true PF_INET SOCK_STREAM 0 in
    Unix.setsockopt socket SO_REUSEADDR true;
    Unix.bind socket (ADDR_INET (Unix.inet_addr_loopback, !port));
    Unix.listen socket 64;
    socket

  let bound_port socket =
    match Unix.getsockname socket with ADDR_INET (_, port) -> port | ADDR_UNIX _ -> 0

  (* Checks twice a second whether to stop. *)
  let rec accept_loop socket =
    if not (Atomic.get stopping) then begin
      (match Unix.select [ socket ] [] [] 0.5 with
      | [ _ ], _, _ ->
        let connection, _ = Unix.accept ~cloexec:true socket in
        Unix.setsockopt connection TCP_NODELAY true;
        ignore (Thread.create serve_connection connection)
      | _ -> ()
      | exception Unix.Unix_error (Unix.EINTR, _, _) -> ());
      accept_loop socket
    end
end

(* Sends requests over loopback at a steady rate. It builds its requests only once, so
   that it rarely appears in the profile. *)
module Load = struct
  let page_request key visitor =
    Printf.sprintf
      "GET /page/article-%d?lang=en&from=home HTTP/1.1\r\nHost: demo\r\nUser-Agent: load/1.0\r\n%s\r\n"
      key
      (if visitor then "" else "Cookie: session=known\r\n")

  let order_request key =
    let item i = Printf.sprintf "[\"article %d\",%d,%d.50]" (key + i) (i + 1) (key mod 90) in
    let body = "[" ^ String.concat "," (List.init 8 item) ^ "]\n" in
    Printf.sprintf
      "POST /order HTTP/1.1\r\nHost: demo\r\nUser-Agent: load/1.0\r\nCookie: session=known\r\n\
       Content-Length: %d\r\n\r\n%s"
      (String.length body) body

  (* Half of the requests are orders, half are pages; every fourth page is for a new visitor. *)
  let requests =
    lazy
      (Array.init 8_192 (fun i ->
           if i land 1 = 0 then order_request i
           else page_request (i * 7_919 mod 3_001) (i land 7 = 1)))

  let skip_response wire line =
    let length = ref 0 and header = ref true in
    while !header do
      Buffer.clear line;
      Wire.read_line_into wire line;
      if Buffer.length line > 16 && Buffer.nth line 8 = 'L' then
        length := int_of_string (String.trim (Buffer.sub line 16 (Buffer.length line - 16)));
      header := Buffer.length line > 1
    done;
    Buffer.clear line;
    Wire.read_exactly wire line !length

  let connect target =
    let socket = Unix.socket ~cloexec:true PF_INET SOCK_STREAM 0 in
    Unix.connect socket (ADDR_INET (Unix.inet_addr_loopback, target));
    Unix.setsockopt socket TCP_NODELAY true;
    Wire.create socket

  let batch = 20

  let run (target, index) =
    let requests = Lazy.force requests in
    let wire = connect target and line = Buffer.create 4_096 in
    let pause = float (batch * !connections) /. float !requests_per_second in
    let next = ref (index * 997) in
    try
      while not (Atomic.get stopping) do
        for _ = 1 to batch do
          Wire.write wire requests.(!next land 8_191);
          skip_response wire line;
          incr next
        done;
        Thread.delay pause
      done
    with End_of_file | Unix.Unix_error _ -> ()

  let start target =
    ignore (Lazy.force requests);
    for index = 1 to !connections do ignore (Thread.create run (target, index)) done
end

let () =
  Arg.parse
    [ ("--port", Arg.Set_int port, "PORT to listen on (default: any)");
      ("--max-sessions", Arg.Set_int Sessions.most, "SESSIONS to keep at most (default: all, a leak)");
      ("--self-load", Arg.Set_int connections, "CONNECTIONS to send requests to itself");
      ("--rate", Arg.Set_int requests_per_second, "REQUESTS a second of the self-made load") ]
    (fun text -> port := int_of_string text)
    "demo_server [options]";
  Sys.set_signal Sys.sigpipe Sys.Signal_ignore;
  let stop = Sys.Signal_handle (fun _ -> Atomic.set stopping true) in
  Sys.set_signal Sys.sigterm stop;
  Sys.set_signal Sys.sigint stop;
  let socket = Server.listen () in
  Printf.printf "ready %d %d\n%!" (Server.bound_port socket) (Unix.getpid ());
  Load.start (Server.bound_port socket);
  Server.accept_loop socket;
  Printf.printf "served %d requests\n%!" (Atomic.get served)
