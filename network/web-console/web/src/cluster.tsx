// A cluster as its member sees it: a map, and the same as a table.

import { integer } from "./format";
import type { Seen } from "./overview";
import { Card } from "./parts";

interface Member {
  id: number;
  address: string;
  observes: boolean;
  leads: boolean;
  answers: boolean;
  height?: number;
  /** Blocks behind the furthest. */
  lag?: number;
  signed?: number;
  deviates?: number;
}

/** What metrics say of members, by their numbers. */
function members(seen: Seen): Member[] {
  const { cluster, votes, metrics } = seen;
  if (!cluster) return [];
  const family = (name: string) =>
    (metrics[`tally_member_${name}`] ?? {}) as Record<string, number>;
  const leader = Number(metrics.tally_raft_leader ?? metrics.tally_cometbft_proposer ?? 0);
  const [answers, heights, lags, voted, deviating] = [
    "answers",
    "height",
    "lag_blocks",
    "voted_height",
    "deviating_height",
  ].map(family);
  // Of each a number, a key and an address; commas between them.
  return cluster.members.split(",").map((text) => {
    const [number = "", , address = "", word] = text.trim().split(" ");
    const id = Number(number);
    return {
      id,
      address,
      observes: word === "observer",
      leads: id === leader,
      // Of a member that has told nothing yet, nothing is known.
      answers: answers![id] !== 0,
      height: heights![id],
      lag: lags![id],
      signed: votes?.members[id]?.signed ?? voted![id],
      deviates: votes?.members[id]?.deviates ?? (deviating![id] || undefined),
    };
  });
}

export function Cluster({ seen }: { seen: Seen }) {
  const { cluster, votes } = seen;
  if (!cluster) return null;
  const metric = (name: string) => Number(seen.metrics[`tally_${name}`] ?? 0);
  const all = members(seen);
  const leader = all.find((member) => member.leads);
  const lag = metric("raft_lag_blocks") || metric("kafka_lag_blocks");
  return (
    <Card title="Cluster" class="wide">
      <p>
        Ordered by {cluster.orderer}
        {leader ? `; member ${leader.id} leads` : "; nobody leads"}
        {metric("raft_leads") > 0 && " (this node)"}; this node has {integer(lag)} blocks left to
        execute.
      </p>
      {votes?.diverged && (
        <p class="fault">This node's result is not the others': {votes.diverged}</p>
      )}
      <Chart all={all} />
      <div class="wide-table" tabIndex={0} role="region" aria-label="Members">
        <Members all={all} electors={cluster.electors} />
      </div>
      {votes && (
        <p class="quiet">
          Last certificate:{" "}
          {votes.certified === null ? "none" : `block ${integer(votes.certified)}`}, {votes.needed}{" "}
          votes each.
        </p>
      )}
    </Card>
  );
}

function Members({ all, electors }: { all: Member[]; electors: number[] }) {
  return (
    <table class="plain-table">
      <thead>
        <tr>
          {["Member", "Address", "Role", "Block", "Behind", "Signed block", "Result"].map(
            (name, at) => (
              <th scope="col" class={at >= 3 && at < 6 ? "number" : ""}>
                {name}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>
        {all.map((member) => (
          <tr>
            <td>{member.id}</td>
            <td>{member.address}</td>
            <td>{roleOf(member) + (electors.includes(member.id) ? ", votes" : "")}</td>
            <td class="number">{counted(member.height)}</td>
            <td class="number">{counted(member.lag)}</td>
            <td class="number">{counted(member.signed)}</td>
            <td>
              {member.deviates ? (
                <strong class="bad">deviates at block {integer(member.deviates)}</strong>
              ) : member.signed ? (
                "agrees"
              ) : (
                "–"
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const counted = (count: number | undefined) => (count === undefined ? "–" : integer(count));

function roleOf({ leads, observes, answers }: Member): string {
  if (!answers) return "does not answer";
  if (leads) return "leads";
  return observes ? "observes" : "follows";
}

const WIDTH = 480;
const HEIGHT = 210;
const RADIUS = 22;

/** Members on an ellipse, the leader's lines to those that it reaches. */
function Chart({ all }: { all: Member[] }) {
  const placed = all.map((member, at) => {
    const angle = (2 * Math.PI * at) / all.length - Math.PI / 2;
    return {
      ...member,
      x: WIDTH / 2 + 150 * Math.cos(angle),
      y: HEIGHT / 2 - 10 + 70 * Math.sin(angle),
    };
  });
  const leader = placed.find((member) => member.leads);
  const said = placed.map((member) => `member ${member.id} ${under(member)}`).join("; ");
  return (
    <svg class="map" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Map: ${said}`}>
      {placed.map(
        (member) =>
          leader &&
          member !== leader &&
          member.answers && <line x1={leader.x} y1={leader.y} x2={member.x} y2={member.y} />,
      )}
      {placed.map((member) => (
        <g class={classOf(member)}>
          <circle cx={member.x} cy={member.y} r={RADIUS} />
          <text class="id" x={member.x} y={member.y + 5}>
            {member.id}
          </text>
          <text class="quiet" x={member.x} y={member.y + RADIUS + 16}>
            {under(member)}
          </text>
        </g>
      ))}
    </svg>
  );
}

function classOf({ answers, deviates, leads }: Member): string {
  if (!answers) return "silent";
  if (deviates) return "deviates";
  return leads ? "leads" : "";
}

function under(member: Member): string {
  if (!member.answers) return "does not answer";
  if (member.deviates) return `deviates at block ${integer(member.deviates)}`;
  const behind = member.lag ? `, ${integer(member.lag)} behind` : "";
  return `${roleOf(member)}${behind}`;
}
