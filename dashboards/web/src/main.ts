import "./theme.css";
import "./page.css";
import { PageApp } from "./app";

const app = new PageApp(document.getElementById("notice")!);
void app.start();
