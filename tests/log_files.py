"""A made-up flight: as a `Log`, and as real log files in every format that sagewing reads."""

import struct
from typing import NamedTuple

import numpy as np

from sagewing.logs.log import Log
from sagewing.logs.rotate import conjugate, multiply, rotate, rotation_vector
from sagewing.logs.signal import Signal

G = np.array([0.0, 0.0, 9.81])


class Flown(NamedTuple):
    """A flight in our axes: IMU and pose, each on its own clock."""

    imu_t: np.ndarray
    acc: np.ndarray
    gyro: np.ndarray
    pose_t: np.ndarray
    position: np.ndarray
    quaternion: np.ndarray


def position_at(t):
    return np.stack([np.sin(1.3 * t), np.cos(1.7 * t), 1.0 + 0.3 * np.sin(0.9 * t)], axis=1)


def _derivative(f, t, e):
    return (f(t + e) - f(t - e)) / (2 * e)


def velocity_at(t):
    return _derivative(position_at, t, 1e-4)


def attitude_at(t):
    """The thrust along the specific force, and some yaw."""
    up = _derivative(velocity_at, t, 1e-3) + G
    up /= np.linalg.norm(up, axis=1, keepdims=True)
    tilt = np.concatenate([1 + up[:, 2:], -up[:, 1:2], up[:, :1], np.zeros((len(t), 1))], axis=1)
    tilt /= np.linalg.norm(tilt, axis=1, keepdims=True)
    yaw, zero = 0.4 * np.sin(t), np.zeros_like(t)
    return multiply(tilt, np.stack([np.cos(yaw), zero, zero, np.sin(yaw)], axis=1))


def flown(seconds=4.0, imu_hz=200.0, pose_hz=50.0, start=100.0, late=0.0):
    """The pose comes `late` and its samples lie between those of the IMU."""
    t = np.arange(0.0, seconds, 1.0 / imu_hz)
    s = np.arange(late, seconds - 0.01, 1.0 / pose_hz) + 0.3 / imu_hz
    e = 1e-3
    turned = rotation_vector(multiply(conjugate(attitude_at(t - e)), attitude_at(t + e))) / (2 * e)
    force = rotate(conjugate(attitude_at(t)), _derivative(velocity_at, t, e) + G)
    return Flown(t + start, force, turned, s + start, position_at(s), attitude_at(s))


def with_noise(flight, std=0.02, seed=0):
    rng = np.random.default_rng(seed)
    noisy = flight.position + std * rng.standard_normal(flight.position.shape)
    return flight._replace(position=noisy)


def log_of(flight, keep=None, **more):
    """A `Log` of a made-up flight; `keep` tells which poses came."""
    came = slice(None) if keep is None else keep
    t = flight.pose_t[came]
    return Log(
        "made-up",
        "made-up.log",
        acc=Signal("acc", flight.imu_t, flight.acc),
        gyro=Signal("gyro", flight.imu_t, flight.gyro),
        position=Signal("position", t, flight.position[came]),
        quaternion=Signal("attitude", t, flight.quaternion[came]),
        **more,
    )


# PX4


def _message(kind, body):
    return struct.pack("<HB", len(body), ord(kind)) + body


def ned(vectors):
    return vectors[:, [1, 0, 2]] * [1.0, 1.0, -1.0]


def ned_attitude(q):
    half = np.sqrt(0.5)
    swap = np.broadcast_to([0.0, half, half, 0.0], q.shape)
    return multiply(multiply(swap, q), np.broadcast_to([0.0, 1.0, 0.0, 0.0], q.shape))


ULOG_TYPES = {
    "<u8": "uint64_t",
    "<f4": "float",
    "<f8": "double",
    "<i4": "int32_t",
    "|u1": "uint8_t",
}


def ulog_bytes(topics):
    """A ULog of topics, each a structured array; written by hand, for pyulog only reads."""
    head = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 0) + _message("B", bytes(40))
    formats, added, data = [], [], []
    for i, (name, rows) in enumerate(topics.items()):
        fields = []
        for field in rows.dtype.names:
            kind = rows.dtype[field]
            base, shape = kind.subdtype or (kind, ())
            size = f"[{shape[0]}]" if shape else ""
            fields.append(f"{ULOG_TYPES[base.str]}{size} {field};")
        formats.append(_message("F", f"{name}:{''.join(fields)}".encode()))
        added.append(_message("A", struct.pack("<BH", 0, i) + name.encode()))
        framed = np.zeros(
            len(rows), [("size", "<u2"), ("kind", "u1"), ("id", "<u2"), ("row", rows.dtype)]
        )
        framed["size"], framed["kind"], framed["id"] = 2 + rows.dtype.itemsize, ord("D"), i
        framed["row"] = rows
        data.append(framed.tobytes())
    return head + b"".join(formats + added + data)


def rows(t, **columns):
    """A topic's structured array; t in seconds."""
    kinds = [("timestamp", "<u8")]
    for name, value in columns.items():
        code = {"f": "<f4", "d": "<f8", "i": "<i4", "u": "|u1"}[name[0]]
        kinds.append((name[2:], code, value.shape[1:]) if value.ndim > 1 else (name[2:], code))
    made = np.zeros(len(t), kinds)
    made["timestamp"] = np.round(1e6 * np.asarray(t)).astype(np.uint64)
    for name, value in columns.items():
        made[name[2:]] = value
    return made


def px4(flight):
    """The topics of a vehicle with motion capture."""
    over = np.array([1.0, -1.0, -1.0])
    return {
        "sensor_combined": rows(
            flight.imu_t, f_gyro_rad=flight.gyro * over, f_accelerometer_m_s2=flight.acc * over
        ),
        "vehicle_visual_odometry": rows(
            flight.pose_t, f_position=ned(flight.position), f_q=ned_attitude(flight.quaternion)
        ),
    }


def gps(t, fixes, fix_type=3):
    """The topic of a receiver: latitude and longitude in degrees, altitude in metres."""
    latitude, longitude, altitude = fixes.T
    return rows(
        t,
        d_latitude_deg=latitude,
        d_longitude_deg=longitude,
        d_altitude_msl_m=altitude,
        f_eph=np.full(len(t), 0.8),
        f_epv=np.full(len(t), 1.2),
        u_fix_type=np.full(len(t), fix_type),
    )


# ROS


def write_bag1(path, flight, topics=None):
    from rosbags.rosbag1 import Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC)
    with Writer(path) as writer:
        _fill(writer, store, (topics or pose_topics)(flight, store), ros1=True)


def write_bag2(path, flight, topics=None, storage=None, qos=()):
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    plugin = StoragePlugin.MCAP if storage == "mcap" else StoragePlugin.SQLITE3
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        _fill(writer, store, (topics or pose_topics)(flight, store), ros1=False, qos=qos)


def _fill(writer, store, topics, ros1, qos=()):
    extra = {"offered_qos_profiles": qos} if qos else {}
    for topic, kind, messages in topics:
        connection = writer.add_connection(topic, kind, typestore=store, **extra)
        write = store.serialize_ros1 if ros1 else store.serialize_cdr
        for t, message in messages:
            writer.write(connection, round(1e9 * t), write(message, kind))


def _header(store, t, ros1):
    time = store.types["builtin_interfaces/msg/Time"]
    seconds = int(t)
    stamp = time(sec=seconds, nanosec=round(1e9 * (t - seconds)))
    extra = {"seq": 0} if ros1 else {}
    return store.types["std_msgs/msg/Header"](stamp=stamp, frame_id="world", **extra)


def _is_ros1(store):
    return "seq" in store.types["std_msgs/msg/Header"].__dataclass_fields__


def imu_topic(flight, store, topic="/imu"):
    types, ros1 = store.types, _is_ros1(store)
    vector, turn = types["geometry_msgs/msg/Vector3"], types["geometry_msgs/msg/Quaternion"]
    unknown = np.array([-1.0] + [0.0] * 8)
    return (
        topic,
        "sensor_msgs/msg/Imu",
        [
            (
                t,
                types["sensor_msgs/msg/Imu"](
                    header=_header(store, t, ros1),
                    orientation=turn(x=0.0, y=0.0, z=0.0, w=1.0),
                    orientation_covariance=unknown,
                    angular_velocity=vector(*gyro),
                    angular_velocity_covariance=np.zeros(9),
                    linear_acceleration=vector(*acc),
                    linear_acceleration_covariance=np.zeros(9),
                ),
            )
            for t, acc, gyro in zip(flight.imu_t, flight.acc, flight.gyro, strict=True)
        ],
    )


def pose_messages(flight, store, kind):
    """The flight's poses as messages of a kind."""
    types, ros1 = store.types, _is_ros1(store)
    vector, turn = types["geometry_msgs/msg/Vector3"], types["geometry_msgs/msg/Quaternion"]
    point, pose = types["geometry_msgs/msg/Point"], types["geometry_msgs/msg/Pose"]
    made = []
    for t, p, (w, x, y, z) in zip(flight.pose_t, flight.position, flight.quaternion, strict=True):
        header, q = _header(store, t, ros1), turn(x=x, y=y, z=z, w=w)
        if kind == "geometry_msgs/msg/TransformStamped":
            moved = types["geometry_msgs/msg/Transform"](translation=vector(*p), rotation=q)
            message = types[kind](header=header, child_frame_id="body", transform=moved)
        elif kind == "nav_msgs/msg/Odometry":
            still = types["geometry_msgs/msg/Twist"](
                linear=vector(0, 0, 0), angular=vector(0, 0, 0)
            )
            none = np.zeros(36)
            message = types[kind](
                header=header,
                child_frame_id="base_link",
                pose=types["geometry_msgs/msg/PoseWithCovariance"](
                    pose=pose(position=point(*p), orientation=q), covariance=none
                ),
                twist=types["geometry_msgs/msg/TwistWithCovariance"](twist=still, covariance=none),
            )
        else:
            message = types[kind](header=header, pose=pose(position=point(*p), orientation=q))
        made.append((t, message))
    return made


def pose_topics(flight, store, kind="geometry_msgs/msg/PoseStamped"):
    return [imu_topic(flight, store), ("/mocap", kind, pose_messages(flight, store, kind))]


def fix_topics(flight, store, fixes, std=2.0):
    """An IMU and a receiver of GPS."""
    kind, types, ros1 = "sensor_msgs/msg/NavSatFix", store.types, _is_ros1(store)
    status = types["sensor_msgs/msg/NavSatStatus"]
    messages = []
    for t, (latitude, longitude, altitude) in zip(flight.pose_t, fixes, strict=True):
        message = types[kind](
            header=_header(store, t, ros1),
            status=status(status=0, service=1),
            latitude=latitude,
            longitude=longitude,
            altitude=altitude,
            position_covariance=(std**2 * np.eye(3)).ravel(),
            position_covariance_type=2,
        )
        messages.append((t, message))
    return [imu_topic(flight, store), ("/fix", kind, messages)]


# Text


def write_euroc(folder, flight, sensor=None, mount=None):
    """`mav0` with imu0 and the ground truth; and a sensor at `mount` (4 x 4) in the body."""
    root = folder / "mav0"
    imu = np.column_stack([np.round(1e9 * flight.imu_t), flight.gyro, flight.acc])
    _write(root / "imu0", "#timestamp [ns],w_RS_S_x [rad s^-1],...", imu)
    pose = np.column_stack([np.round(1e9 * flight.pose_t), flight.position, flight.quaternion])
    still = np.zeros((len(pose), 9))
    _write(
        root / "state_groundtruth_estimate0",
        "#timestamp,p_RS_R_x [m],...",
        np.column_stack([pose, still]),
    )
    if sensor:
        _write(
            root / sensor, "#timestamp [ns],p_x", pose if mount is None else _mounted(pose, mount)
        )
        if mount is not None:
            text = f"T_BS:\n  cols: 4\n  rows: 4\n  data: [{', '.join(map(str, mount.ravel()))}]\n"
            (root / sensor / "sensor.yaml").write_text(text)
    return folder


def _mounted(pose, mount):
    from sagewing.logs.rotate import from_matrix

    q = pose[:, 4:]
    lever = np.broadcast_to(mount[:3, 3], (len(q), 3))
    turn = np.broadcast_to(from_matrix(mount[:3, :3]), q.shape)
    return np.column_stack([pose[:, :1], pose[:, 1:4] + rotate(q, lever), multiply(q, turn)])


def _write(folder, header, table):
    folder.mkdir(parents=True)
    lines = [header, *(",".join(f"{v:.17g}" for v in row) for row in table)]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


def write_tum(path, flight):
    q = flight.quaternion[:, [1, 2, 3, 0]]
    np.savetxt(path, np.column_stack([flight.pose_t, flight.position, q]), fmt="%.9f")


def write_imu_csv(path, flight, header="timestamp,gyro_x,gyro_y,gyro_z,acc_x,acc_y,acc_z"):
    table = np.column_stack([flight.imu_t, flight.gyro, flight.acc])
    np.savetxt(path, table, fmt="%.9f", delimiter=",", header=header, comments="")
