import { render } from "preact";
import { App } from "./app";
import "./style.css";
import "./pages.css";

render(<App />, document.getElementById("app")!);
